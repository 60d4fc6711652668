"""The life of jobs on a GPU cluster: their placement, costs, starts and ends."""
