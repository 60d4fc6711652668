"""Slurm's configuration for the simulator: scheduler settings, nodes, partitions, QOS."""
