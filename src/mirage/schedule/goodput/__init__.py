"""Goodput: training progress over time by number of GPUs, fitted to a job's measurements."""
