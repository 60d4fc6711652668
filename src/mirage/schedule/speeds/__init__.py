"""Speeds of jobs on their GPUs: measured step times, and the law that gives progress."""
