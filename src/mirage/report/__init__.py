"""What do I see? Tables, plots and reports."""
