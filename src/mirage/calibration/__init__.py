"""Calibration: fits the simulator to a recorded cluster and measures its fidelity."""
