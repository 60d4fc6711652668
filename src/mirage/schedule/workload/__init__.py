"""Which GPU jobs come? Workloads: jobs by submission, and the readers that make them."""
