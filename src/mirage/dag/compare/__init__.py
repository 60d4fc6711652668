"""A comparison of schedulers of stages: trials, their journal, and the rows and differences made of them."""
