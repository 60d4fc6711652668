"""What is the real cluster doing? The only room that runs Slurm's commands and reads their output."""
