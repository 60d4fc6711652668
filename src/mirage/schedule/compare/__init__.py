"""Which scheduler is better? Workloads played under several schedulers, and the same measures of each."""
