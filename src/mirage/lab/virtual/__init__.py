"""A simulated Slurm in virtual time, with the protocol of a real one."""
