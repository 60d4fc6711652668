"""Readers and writers of traces, one file a format."""
