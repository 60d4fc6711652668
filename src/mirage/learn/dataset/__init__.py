"""Data sets of hand-overs: made by forking, kept in shards, read back."""
