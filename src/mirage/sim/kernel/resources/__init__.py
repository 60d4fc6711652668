"""Resources of a cluster: nodes placed, held, reserved, and limits on them."""
