"""Can I see it at work? The agent keeping a service alive on a simulated cluster."""
