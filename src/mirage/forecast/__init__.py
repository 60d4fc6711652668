"""When will a job start? The visible queue, rolled forward over many futures."""
