"""Inputs of models, made from a view: the last day's queue, and a few numbers."""
