"""Provisioning policies: rules, forecasts, and what the forecasts are made of."""
