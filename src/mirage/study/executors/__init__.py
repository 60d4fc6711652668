"""Executors: independent pieces of work in local processes, Slurm arrays or HyperQueue."""
