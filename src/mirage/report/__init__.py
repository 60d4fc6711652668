"""Reports: pages, charts and tables."""
