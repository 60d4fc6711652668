"""Solvers for rounds: mixed-integer programs by HiGHS, and one configuration per job."""
