"""Predictions of run times: the share of its time limit that a job will use."""
