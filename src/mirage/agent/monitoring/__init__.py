"""Monitoring of the agent: its log and its metrics."""
