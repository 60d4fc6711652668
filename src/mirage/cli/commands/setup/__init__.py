"""Commands that look at a machine before it is used."""
