"""Queue disciplines, each one compiled function from world, state and scratch to actions, found by name."""
