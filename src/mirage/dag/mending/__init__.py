"""Edits of a tree for edge cases: the best change of one line, judged on other episodes."""
