"""Parsers of what Slurm's commands print."""
