"""Charts of a simulation beside the record: waits and levels over time, waits by class."""
