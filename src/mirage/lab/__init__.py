"""Where can I try it? A private real Slurm on this machine, and a simulated one in virtual time."""
