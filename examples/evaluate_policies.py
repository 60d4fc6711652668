"""Interruption and overlap of three policies and of the optimum, over windows of a trace."""

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=45, seed=4)
cluster = m.Cluster.pool(76)
scenario = m.Scenario(cluster, m.workload(jobs, cluster), "easy")
protocol = m.EvaluationProtocol.warm(int(jobs.submit_s[0]) + 14 * 86400, windows=12, every_s=86400)
found = m.evaluate(scenario, protocol, [m.LinkSize(8)], ["reactive", "average", "lead:4", "oracle"], [m.Cost(3, 1)])
for row in found.rows:
    if row.load == "all":
        hours = f"interrupted {row.interruption_h:5.2f} h, overlap {row.overlap_h:5.2f} h"
        print(f"{row.policy:<9} {hours}, cost {row.cost:.2f}")
