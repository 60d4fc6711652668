"""A simulated Slurm: jobs are submitted as with sbatch, and virtual time passes at once."""

import tempfile
from pathlib import Path

import mirage as m

jobs = m.generate_workload(m.builtin_model("lonestar6-like"), days=10, seed=1)
sim = m.Simulation(m.Cluster.pool(76), jobs, discipline="slurm")
sim.advance(int(jobs.submit_s[500]))

slurm = m.VirtualSlurm(sim, user="me")
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder, "train.sh")
    script.write_text("#!/bin/sh\n./train\n")
    job = slurm.submit(m.Submission(str(script), {"nodes": "4", "time": "12:00:00"}))
for hours in range(0, 24, 6):
    shown = [one for one in slurm.observe().jobs if one.id == job]
    print(f"after {hours:>2} h: job {job} is {shown[0].state.name if shown else 'gone'}")
    slurm.sleep(6 * 3600)
