"""A cluster of two pools, one of them reserved for maintenance for some hours."""

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=10, seed=5, nodes=40)
begin_s = int(jobs.submit_s[0])
maintenance = m.Reservation(begin_s + 5 * 86400, begin_s + 5 * 86400 + 6 * 3600, "cpu", 60)
for reservations in ((), (maintenance,)):
    groups = (m.NodeGroup("cpu", 60), m.NodeGroup("gpu", 16))
    partitions = (m.Partition("main"), m.Partition("gpu", ("gpu",)))
    cluster = m.Cluster(groups, partitions, reservations=reservations)
    schedule = m.simulate(cluster, jobs, "easy")
    wait_h = (schedule.start_s - schedule.table.submit_s).mean() / 3600
    print(f"{len(reservations)} reservations: mean wait {wait_h:.2f} h")
