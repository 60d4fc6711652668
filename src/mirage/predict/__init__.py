"""What will happen to this job? Predictions of queue waits and run times, and the files they are kept in."""
