"""Fidelity: compares a recorded and a simulated history of the same jobs."""
