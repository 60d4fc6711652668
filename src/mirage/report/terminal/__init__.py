"""Tables and bars for the terminal."""
