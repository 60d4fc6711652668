"""Models of hand-overs without networks: what is predicted, and when to submit by it."""
