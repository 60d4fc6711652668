"""Calibration of the cluster that Mirage runs on: its accounts, stored result and quality."""
