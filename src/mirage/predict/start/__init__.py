"""When will it start, and what should I ask for to start sooner? Predictions, offers, and promises kept."""
