"""What if I submitted a job now? A fork of a simulation answers."""

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=30, seed=1)
sim = m.Simulation(m.Cluster.pool(76), jobs, discipline="easy")
sim.advance(int(jobs.submit_s[2000]))

for nodes in (1, 8, 32):
    branch = sim.fork()  # takes microseconds
    job = branch.inject(nodes=nodes, limit_s=48 * 3600)
    print(f"{nodes:>2} nodes: {(branch.run_until_started(job) - sim.now_s) / 3600:.1f} h of waiting")
