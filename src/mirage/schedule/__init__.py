"""Schedulers of GPU clusters: they choose the running jobs, their servers and their GPUs."""
