"""Test clusters: a private real Slurm on this machine, and a simulated one."""
