"""Workload models: fitted to a trace, kept as JSON, drawn from to generate traces."""
