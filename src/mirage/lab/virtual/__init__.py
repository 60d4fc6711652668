"""A simulated Slurm in virtual time, behind the protocol of a real one."""
