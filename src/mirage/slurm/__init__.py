"""What is the real cluster doing? Slurm's commands, run and read here only."""
