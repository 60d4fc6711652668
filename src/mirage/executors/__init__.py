"""Executors: independent pieces of work, done by processes of this machine or by an array of Slurm jobs."""
