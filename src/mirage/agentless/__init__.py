"""Chains without an agent: a small tree, compiled to shell, decides inside the job itself."""
