"""Queue disciplines, by name: compiled functions from world, state and scratch to actions."""
