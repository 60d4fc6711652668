"""Background work of the agent, which never affects its chains."""
