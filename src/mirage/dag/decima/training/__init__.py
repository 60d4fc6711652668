"""Training of our own network in PyTorch: rollouts, imitation and policy gradients."""
