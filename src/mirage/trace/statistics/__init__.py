"""Statistics of a trace: waits, limits, sizes, states and how busy the machine was."""
