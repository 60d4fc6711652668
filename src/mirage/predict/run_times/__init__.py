"""Predictions of run times: how much of its time limit a job will use."""
