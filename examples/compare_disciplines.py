"""Mean waits of one workload under four queue disciplines."""

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=20, seed=3)
cluster = m.Cluster.pool(76)
for discipline in ("fcfs", "easy", "conservative", "slurm"):
    schedule = m.simulate(cluster, jobs, discipline)
    waits_h = (schedule.start_s - schedule.table.submit_s) / 3600
    print(f"{discipline:<13} mean {waits_h.mean():6.2f} h, longest {waits_h.max():6.1f} h")
