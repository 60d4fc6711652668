"""Charts, one file each: SVG, and PNG where it says so."""
