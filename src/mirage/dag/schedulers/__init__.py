"""Schedulers of stages, one file each, and their registry."""
