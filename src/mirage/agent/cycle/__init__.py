"""One cycle of the agent: poll, reconcile, submit, hand over, decide."""
