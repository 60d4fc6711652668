"""The real cluster: the only package that runs Slurm's commands and reads their output."""
