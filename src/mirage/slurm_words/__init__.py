"""The vocabulary of Slurm's output: hosts, TRES, states, numbers, times, limits."""
