"""Edits of a tree for edge cases: the best change of one line, tested on other episodes."""
