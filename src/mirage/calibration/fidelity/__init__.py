"""Judge of fidelity: a recorded and a simulated history of the same jobs, compared."""
