"""Kernels that code needs beyond those compiled ahead."""

from __future__ import annotations

import subprocess
import sys

_LISTEN = """
from mirage.{room}.compile_{room} import use
from mirage.kernel import cache
use()
kernels, load = [], cache._KernelCache._load_overload
def loads(self, signature, target):
    kernels.append(self._kernel)
    return load(self, signature, target)
cache._KernelCache._load_overload = loads
"""
_REPORT = """
print("further kernels:", *sorted(set(kernels)))
"""


def further_kernels(room: str, code: str, *arguments: str) -> str:
    """Returns the kernels that a process loads after those of a room.

    It is ``further kernels:`` for none.
    """
    program = _LISTEN.format(room=room) + code + _REPORT
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
