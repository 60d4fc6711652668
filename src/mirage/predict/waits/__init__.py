"""Queue waits, predicted from accounting alone, without a snapshot of the queue."""
