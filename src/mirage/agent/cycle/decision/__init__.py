"""Decisions about chains: asking policies, the fall-back, and the release of held links."""
