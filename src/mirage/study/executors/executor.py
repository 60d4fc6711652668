"""The interface of executors, which run independent pieces of work.

for result in LocalProcesses(4)(begin, setup, pieces): …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

Setup = TypeVar("Setup")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs pieces of work."""

    def __call__(
        self, begin: Callable[[Setup], Callable[[Piece], Result]], setup: Setup, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """Does pieces and yields the result of each when it is done, in any order.

        Args:
            begin: Called once in each process or job; returns the function that does one piece after another. It must
                be a function of a module, marked with ``sent_to_jobs``: processes and jobs receive its name.
            setup: The argument of ``begin``.
            pieces: Started in this order.

        Raises:
            MirageError: A piece failed; results that were written stay.
        """
        ...


def split_evenly(pieces: Sequence[Piece], parts: int) -> list[Sequence[Piece]]:
    """Splits pieces into at most ``parts`` parts of nearly equal size, none of them empty."""
    bounds = [len(pieces) * k // parts for k in range(parts + 1)]
    return [pieces[first:end] for first, end in pairwise(bounds) if first < end]
