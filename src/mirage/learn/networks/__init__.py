"""Networks over the 24 hours before a decision: transformer and mixture of experts, their training and their policy."""
