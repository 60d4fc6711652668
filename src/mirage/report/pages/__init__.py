"""Self-contained pages, one HTML file each."""
