"""Whole numbers as arguments: of Python or NumPy, and no floats."""

from __future__ import annotations

import operator
from typing import Any

from mirage.errors import ConfigurationError, shown


def whole(name: str, value: Any) -> int:
    """Returns a whole number of Python or NumPy as one of Python.

    Args:
        name: What it is, for the message.
        value: The number.

    Raises:
        ConfigurationError: It is no whole number, or a float such as 2.0.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigurationError(f"{name} is {shown(value)}; give a whole number, not a float") from None


def make_whole(record: object, *names: str) -> None:
    """Makes fields of a frozen record whole numbers of Python; None stays.

    Raises:
        ConfigurationError: A field is no whole number.
    """
    for name in names:
        if (value := getattr(record, name)) is not None:
            object.__setattr__(record, name, whole(name, value))
