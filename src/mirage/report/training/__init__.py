"""Reports of training: on the terminal, and as a folder with learning curves."""
