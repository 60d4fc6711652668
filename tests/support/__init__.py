"""Helpers of several tests: worlds made by hand, fake components, real servers, references to compare with."""
