"""Charts of a simulation and the record: waits and levels over time, waits by class."""
