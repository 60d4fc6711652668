"""Results of a comparison: a folder of text, pictures and figures; terminal tables."""
