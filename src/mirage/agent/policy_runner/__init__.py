"""Non-blocking policy calls: questions are sent, and answers used when they arrive."""
