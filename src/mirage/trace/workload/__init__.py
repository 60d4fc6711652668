"""Workload models: fitted to a trace, stored as JSON, sampled to generate traces."""
