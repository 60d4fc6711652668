"""Results of a comparison: text, pictures and figures in a folder, and tables on the terminal."""
