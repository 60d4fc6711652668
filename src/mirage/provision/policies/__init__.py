"""Provisioning policies: rules, forecasts, and estimates from the backfill plan."""
