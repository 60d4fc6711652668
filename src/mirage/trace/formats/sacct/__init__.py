"""Accounting records of Slurm: text and JSON of ``sacct``."""
