"""CSV files of any make: a mapping of their columns to the job table, and the reader that follows it."""
