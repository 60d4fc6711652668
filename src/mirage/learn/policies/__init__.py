"""Learned policies: models that implement the policy contract, found by their file paths."""
