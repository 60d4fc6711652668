"""How kernels are compiled: Python functions over arrays, by numba, cached on disk.

A cached kernel must be thrown away when any kernel it calls has changed, which numba does not see: it
watches the caller's file only. The cache folder is therefore named after the text of all kernels.

``NUMBA_DISABLE_JIT=1`` runs the very same functions as plain Python, under any debugger.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_config: Any = numba.config
_ROOT = Path(__file__).resolve().parents[2]
_ROOMS_WITH_KERNELS = ("sim", "provision")


def _cache_folder() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for room in _ROOMS_WITH_KERNELS:
        for source in sorted((_ROOT / room).rglob("*.py")):
            digest.update(source.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return str(base / "mirage" / f"kernels-{digest.hexdigest()[:16]}")


_CACHE_FOLDER = _cache_folder()


def kernel(*signature: Any, **options: Any) -> Callable[[Function], Function]:
    """Compile a function over arrays: cached, without the interpreter lock, divisions as numpy does them.

    Args:
        signature: Types to compile for at once; needed where the function is handed over as a value.
        options: Further options of ``numba.njit``.
    """
    options = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "_nrt": False,  # kernels allocate nothing; counting references to the arrays would cost 30 times their work
        "forceinline": not signature,
        "no_cfunc_wrapper": not signature,  # only what is handed over as a value is called through one
        **options,
    }

    def compiled(function: Function) -> Function:
        before = _config.CACHE_DIR
        _config.CACHE_DIR = before or _CACHE_FOLDER
        try:
            result: Function = njit(*signature, **options)(function)
        finally:
            _config.CACHE_DIR = before
        return result

    return compiled
