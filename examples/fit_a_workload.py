"""A workload model fitted to a trace, and a new trace drawn from it and written."""

import tempfile
from pathlib import Path

import mirage as m

recorded = m.generate_workload(m.builtin_model("lonestar6-like"), days=60, seed=1)  # or m.read_trace("trace.txt").table
model = m.fit_workload(m.simulate(m.Cluster.pool(76), recorded, "easy").table, nodes=76)
drawn = m.generate_workload(model, days=30, seed=2)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "drawn.swf")
    m.write_trace(drawn, path)
    again = m.read_trace(path).table
print(f"recorded {len(recorded):,} jobs, drew {len(drawn):,}, read {len(again):,} of them again")
