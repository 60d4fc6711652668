"""Comparisons of schedulers of stages: trials, their journal, rows and differences."""
