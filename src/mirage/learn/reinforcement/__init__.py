"""Reinforcement learning of hand-overs: the data as an environment, deep Q-networks and policy gradients."""
