"""A private real Slurm cluster on this machine: loopback only, one directory, no rights needed."""
