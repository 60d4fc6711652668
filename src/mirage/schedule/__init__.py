"""Who runs, where, with how much: schedulers of whole GPU clusters, on the same simulator as everything else."""
