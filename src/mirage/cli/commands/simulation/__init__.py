"""Commands that replay a trace: simulate, evaluate, calibrate."""
