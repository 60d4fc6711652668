"""Commands that check or prepare a machine before it is used."""
