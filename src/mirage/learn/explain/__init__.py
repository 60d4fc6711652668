"""What does a policy decide by? A small tree that imitates it, and how well it does."""
