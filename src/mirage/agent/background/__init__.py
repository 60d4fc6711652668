"""What the agent does beside its chains, which never notice."""
