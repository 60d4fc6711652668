"""The real cluster: the only room that runs Slurm's commands and reads their output."""
