"""Provisioning: chains, policies that submit the next link, and their evaluation."""
