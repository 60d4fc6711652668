"""``sbatch``, ``squeue`` and related commands on PATH, answered by the simulated Slurm."""
