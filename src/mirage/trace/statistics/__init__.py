"""Statistics of a trace: waits, limits, sizes, states and busy nodes."""
