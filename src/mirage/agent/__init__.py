"""The restart-safe agent that keeps chains of jobs alive."""
