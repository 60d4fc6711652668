"""When do I ask for the next link? Chains, their provisioners, and how these are judged."""
