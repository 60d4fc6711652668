"""The simulator's side of the contract: its state as a view, a view as its state, plans and job updates."""
