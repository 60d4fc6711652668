"""Compiled kernels of the engine of GPU clusters."""
