"""Mending of a tree on an edge case: the best change of one line, and what it brings on other episodes."""
