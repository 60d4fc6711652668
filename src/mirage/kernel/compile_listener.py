"""Listeners to compilation: called with the name of each kernel that is not cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str | None], None]
"""Called with the name of a kernel before it is compiled, and with None when no kernel is being compiled any more."""

_listeners: list[Listener] = []
_in_work: list[str] = []


@contextmanager
def compile_listener(listener: Listener) -> Iterator[None]:
    """Call a listener for each kernel compiled, instead of the present one, in the context.

    An exception that it raises ends the compilation.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        _in_work.clear()


def compiling(kernel: str) -> None:
    """Report that a kernel is about to be compiled; the kernels that it calls follow."""
    if _listeners:
        _listeners[-1](kernel)
    _in_work.append(kernel)


def compiled(kernel: str) -> None:
    """Report that a kernel has been compiled."""
    if kernel in _in_work:
        del _in_work[_in_work.index(kernel) :]
    if _listeners and not _in_work:
        _listeners[-1](None)
