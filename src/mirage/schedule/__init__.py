"""Schedulers of GPU clusters: they decide which jobs run, where, and on how many GPUs."""
