"""Who watches while I sleep? The restart-safe agent that keeps chains of jobs alive."""
