"""What accounts show of a cluster: nodes over time, shutdowns, limits, users who answer to their jobs."""
