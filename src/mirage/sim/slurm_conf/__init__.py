"""Slurm's configuration as the simulator reads it: scheduler settings, nodes, partitions, QOS."""
