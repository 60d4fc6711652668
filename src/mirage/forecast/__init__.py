"""Forecasts of job starts: the visible queue, simulated forward over many futures."""
