"""CSV files with arbitrary columns: a mapping to the job table, and its reader."""
