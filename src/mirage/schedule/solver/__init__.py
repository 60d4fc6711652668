"""Solvers of a scheduler's rounds: mixed-integer programs by HiGHS, and the choice of one configuration a job."""
