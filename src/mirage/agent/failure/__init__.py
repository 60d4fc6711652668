"""Why links fail: the output of a failed link, and patterns for its last lines."""
