"""Evaluation of policies: windows of a trace, scores, intervals, the frontier."""
