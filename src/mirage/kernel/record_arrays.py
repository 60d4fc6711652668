"""Record types, and arrays of records with columns that read as attributes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Records = Any
"""A numpy record array of one of the types that ``record_type`` makes."""


def record_type(fields: list[tuple[str, type]]) -> np.dtype[Any]:
    """Returns a record type with fields that read as attributes, compiled or not."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


def records(dtype: np.dtype[Any], *shape: int) -> Records:
    """Returns zeroed records with columns that read as attributes too."""
    zeros = np.zeros(math.prod(shape) * dtype.itemsize, np.int8)  # as empty_records
    return np.frombuffer(zeros, dtype).reshape(shape).view(np.recarray)


def empty_records(dtype: np.dtype[Any], n: int) -> Records:
    """Returns n records with undefined contents.

    ``np.empty`` inspects every field first, which costs more than copying the records.
    """
    return np.frombuffer(np.empty(n * dtype.itemsize, np.int8), dtype)
