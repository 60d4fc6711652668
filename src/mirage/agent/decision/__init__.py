"""Decisions about chains: policies, the fall-back, and the release of held links."""
