"""The gymnasium environment of one hand-over, single and vectorised."""
