"""Mirage: long-running jobs kept alive on clusters run by batch schedulers.

Importing the package costs almost nothing: every subpackage is imported only where it is needed.
"""

__version__ = "0.1.0"
