"""Training of our own network: rollouts, advantages, imitation and policy gradients. Needs PyTorch."""
