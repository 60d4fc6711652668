"""When would a job start that is submitted now? Quantiles from the visible queue."""

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=30, seed=1)
sim = m.Simulation(m.Cluster.pool(76), jobs, discipline="easy")
sim.advance(int(jobs.submit_s[2000]))

predictor = m.StartPredictor(sim.view(), discipline="easy", futures=100)
for nodes in (1, 4, 16):
    prediction = predictor.of_request(m.JobRequest(nodes=nodes, limit_s=24 * 3600))
    quantiles_h = prediction.quantiles_s() / 3600
    print(f"{nodes:>2} nodes: " + ", ".join(f"{hours:.1f} h" for hours in quantiles_h))
