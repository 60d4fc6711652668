"""Schedulers of GPU clusters, one per file."""
