"""Shared code of schedulers in rounds: sorted columns of the view, placement of workers."""
