"""Engine of GPU clusters: who holds which GPUs, how far everybody is, and what happens next."""
