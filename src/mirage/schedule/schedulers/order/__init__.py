"""Orders of jobs that compiled schedulers maintain between calls."""
