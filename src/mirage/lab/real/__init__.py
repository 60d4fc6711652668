"""A private real Slurm on this machine: loopback only, one directory, unprivileged."""
