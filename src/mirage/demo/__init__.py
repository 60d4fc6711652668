"""Demonstration of the agent keeping a service alive on a simulated cluster."""
