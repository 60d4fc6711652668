"""The configuration of a simulated cluster: slurm.conf, QOS, cluster files."""
