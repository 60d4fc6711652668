"""Orders of jobs that compiled schedulers keep from call to call."""
