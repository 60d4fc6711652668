"""When do I ask for the next link? Chains, their provisioners, and how these are judged."""

import mirage.provision.policies.rules  # noqa: F401  (registers the built-in ones)
