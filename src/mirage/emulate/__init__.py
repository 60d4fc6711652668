"""Emulated GPU jobs: trainings, servers and devices that behave as measured ones."""
