"""Whole chains on a simulated Slurm: the demonstration, and the evaluation of policies."""
