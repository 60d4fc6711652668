"""Policies that have learnt: a model behind the contract, found by the path of its file."""
