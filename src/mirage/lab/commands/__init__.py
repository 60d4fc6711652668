"""``sbatch``, ``squeue`` and their kin on PATH, answered by the simulated Slurm."""
