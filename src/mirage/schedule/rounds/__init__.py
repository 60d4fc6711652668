"""Decisions in rounds, by Sia and Gavel: goodput, configurations, choice and placement."""
