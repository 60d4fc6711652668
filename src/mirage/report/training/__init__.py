"""Reports of trainings: on the terminal, and as a folder with learning curves."""
