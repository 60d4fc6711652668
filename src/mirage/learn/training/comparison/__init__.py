"""Comparison of everything: methods trained before each month, then played in it beside policies and bounds."""
