"""What can be learnt about hand-overs? Data sets by forking, models, training, and the policies made of them."""
