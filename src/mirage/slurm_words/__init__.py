"""Slurm's words: host lists, TRES, states, numbers, times and limits as its commands write them."""
