"""Tables of schedulers of stages."""
