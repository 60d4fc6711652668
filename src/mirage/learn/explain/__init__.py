"""What does a policy decide by? A small tree that decides alike, and how far it does."""
