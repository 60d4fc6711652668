"""Mirage keeps long-running jobs alive on clusters run by batch schedulers.

Importing the package costs next to nothing: every room below is imported by whoever needs it.
"""

__version__ = "0.1.0"
