"""Predictions of run times, starts and queue waits."""
