"""Networks over graphs of stages: their arrays, forward passes and choices, compiled."""
