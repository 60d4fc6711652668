"""Pages that stand alone as one HTML file."""
