"""What a learner sees of a view: the queue of the last day, and a few numbers about a hand-over."""
