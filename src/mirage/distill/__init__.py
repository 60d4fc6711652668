"""Which rule would say the same? Small decision trees that people read, edit and run."""
