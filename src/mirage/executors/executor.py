"""What an executor is: whoever does independent pieces of work.

for result in Processes(4)(begin, made_of, pieces): …
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

Made = TypeVar("Made")
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Executor(Protocol):
    """Does pieces of work somewhere."""

    def __call__(
        self, begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """Do pieces and hand over the result of each when it is done, in any order.

        Args:
            begin: Called once in each process or job; makes the function that does one piece after another. A function
                of a module: the others are told its name.
            made_of: What it is called with.
            pieces: Handed out in this order.

        Raises:
            MirageError: A piece failed; what others have written stays.
        """
        ...


def dealt(pieces: Sequence[Piece], hands: int) -> list[Sequence[Piece]]:
    """Pieces in as many parts as there are hands, alike in number; fewer where there are fewer pieces."""
    bounds = [len(pieces) * k // hands for k in range(hands + 1)]
    return [pieces[first:end] for first, end in pairwise(bounds) if first < end]
