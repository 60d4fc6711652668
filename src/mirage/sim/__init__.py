"""The discrete-event simulator of a cluster and its queue."""
