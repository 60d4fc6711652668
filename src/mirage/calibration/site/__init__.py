"""Calibration of the cluster that Mirage runs on: its accounts, where the result is kept, and what it is worth."""
