"""Methods that fit a tree to decisions: CART, an optimal tree, and the loops of TRUSTEE."""
