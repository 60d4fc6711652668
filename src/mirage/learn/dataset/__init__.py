"""Data sets of hand-overs: made by forking, stored in shards, read back."""
