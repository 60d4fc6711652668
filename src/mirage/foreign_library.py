"""Libraries from PYTHONPATH that cannot be used here, such as those of another Python."""

from __future__ import annotations

import os
import sys


def foreign_library(error: Exception) -> str:
    """Returns the error of a library from PYTHONPATH; empty for any other.

    Args:
        error: Raised by an import.
    """
    package = sys.modules.get((getattr(error, "name", None) or "").partition(".")[0])
    files = [getattr(package, "__file__", None), getattr(error, "filename", None)]  # the latter of a SyntaxError
    place = error.__traceback__
    while place is not None:
        files.append(place.tb_frame.f_code.co_filename)
        place = place.tb_next
    for folder in map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        for file in map(os.path.abspath, filter(None, files)):
            name = os.path.relpath(file, folder).split(os.sep)[0]
            if name not in (os.pardir, "mirage"):
                return f"{name} of {folder}, a folder of PYTHONPATH, cannot be used here; unset PYTHONPATH"
    return ""
