"""Studies: independent trials on an executor, journals to resume from, and intervals."""
