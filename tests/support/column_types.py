"""Types of columns: arrays have the types that their class declares."""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints

import numpy as np


def wrong_types(columns: Any) -> dict[str, str]:
    """The arrays of an object that have another type than the declared one.

    A kernel that receives them is compiled once more, which takes seconds.
    """
    found = {}
    for name, hint in get_type_hints(type(columns)).items():
        if get_origin(hint) is np.ndarray:
            declared, actual = np.dtype(get_args(get_args(hint)[1])[0]), getattr(columns, name).dtype
            if actual != declared:
                found[name] = f"{actual}, not {declared}"
    return found
