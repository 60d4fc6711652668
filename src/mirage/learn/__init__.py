"""What can be learnt about hand-overs? Data sets, models, training, and learned policies."""
