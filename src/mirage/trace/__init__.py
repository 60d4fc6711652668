"""Traces: the job table, its readers and statistics, and a generator of workloads."""
