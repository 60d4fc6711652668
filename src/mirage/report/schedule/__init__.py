"""Reports of schedulers of GPU clusters: tables on the terminal, charts, and a page."""
