"""Comparison of schedulers: plays workloads under several and reports the same measures."""
