"""Inferred facts about a cluster: nodes over time, shutdowns, limits and think times."""
