"""Converts between simulation and contract: state, view, plans and job updates."""
