"""Predictions of starts, alternative requests that start sooner, and past predictions."""
