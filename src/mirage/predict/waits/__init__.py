"""Queue waits, predicted from accounting alone: no look at the queue is needed."""
