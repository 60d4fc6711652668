"""The version of Mirage."""

__version__ = "0.1.0"
