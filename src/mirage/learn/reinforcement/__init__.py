"""Reinforcement learning of hand-overs: environment, deep Q-networks, policy gradients."""
