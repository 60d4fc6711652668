"""What may I expect? Predictions of run times and of waits."""
