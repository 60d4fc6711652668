"""The compiled simulator of jobs made of stages on a fixed number of executors."""
