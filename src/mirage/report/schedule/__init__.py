"""Reports of GPU cluster schedulers: tables on the terminal, charts, and a page."""
