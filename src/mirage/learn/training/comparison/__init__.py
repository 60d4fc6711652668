"""Comparison: methods trained before each month, then played with policies and bounds."""
