"""Charts, one file each: SVG, and PNG in files named so."""
