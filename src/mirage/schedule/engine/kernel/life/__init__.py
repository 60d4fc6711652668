"""The life of jobs on a GPU cluster: where they sit, what they cost, how they come and go."""
