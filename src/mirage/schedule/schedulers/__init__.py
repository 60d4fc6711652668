"""Schedulers of GPU clusters, one a file."""
