"""Who runs, where, with how much: schedulers of GPU clusters."""
