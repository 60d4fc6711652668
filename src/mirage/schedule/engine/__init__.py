"""Engine of GPU clusters: the GPUs and the progress of each job, and the next events."""
