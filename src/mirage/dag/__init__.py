"""Scheduling inside a job: jobs made of stages, their simulator, and stage schedulers."""
