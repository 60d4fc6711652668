"""The compiled event loop: arrays, jobs, nodes, availability profiles and plan actions."""
