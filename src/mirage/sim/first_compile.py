"""Listeners to compilation: a kernel that is not in the cache is named to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str | None], None]
"""Called with the name of a kernel before it is compiled, and with None when nothing is being compiled any more."""

_listeners: list[Listener] = []
_in_work: list[str] = []


@contextmanager
def told(listener: Listener) -> Iterator[None]:
    """Have a listener called for each kernel compiled, in place of the one told so far.

    What it raises ends the compilation.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        _in_work.clear()


def compiling(kernel: str) -> None:
    """A kernel is about to be compiled, and before it the kernels that it calls."""
    if _listeners:
        _listeners[-1](kernel)
    _in_work.append(kernel)


def compiled(kernel: str) -> None:
    """A kernel has been compiled."""
    if kernel in _in_work:
        del _in_work[_in_work.index(kernel) :]
    if _listeners and not _in_work:
        _listeners[-1](None)
