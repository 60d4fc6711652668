"""Models of hand-overs without networks: predictions, and when to submit by them."""
