"""Executors: independent pieces of work, done by processes of this machine, an array of Slurm jobs or HyperQueue."""
