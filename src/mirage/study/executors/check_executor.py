"""Check of an executor; run it on your own executor before you plug it in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mirage.errors import ContractBroken, MirageError
from mirage.study.executors.executor import Executor
from mirage.study.executors.executor_registry import ExecutorRequest, ExecutorSpec, executor_spec
from mirage.study.executors.work_codec import sent_to_jobs

REFUSED = 13
"""The piece that fails."""


def check_executor(executor: str | ExecutorSpec, folder: Path) -> None:
    """Let an executor do small pieces of work and check the results.

    Every piece gives one result, with the setup that was passed; a second call of the same executor does so too. No
    pieces give no result, and do not even begin. A piece that fails with an error of Mirage fails the call with one. A
    caller may stop after the first result.

    Args:
        executor: Its name or its specification.
        folder: A folder for its files; a remote executor needs one that all machines share.

    Raises:
        ContractBroken: The first violation found.
    """
    spec = executor_spec(executor) if isinstance(executor, str) else executor
    made = spec.make(ExecutorRequest(Path(folder), "check"))
    for pieces in (range(5), range(20, 23)):
        _check_results(spec, made, pieces)
    if list(made(begin_nothing, "unused", [])):
        raise ContractBroken(f"{spec.entry} gives results without pieces; return at once")
    _check_failure(spec, made)
    results = iter(made(begin_square, 100, range(4)))
    if next(results) not in _squares(100, range(4)):
        raise ContractBroken(f"{spec.entry} gives a first result that no piece has")
    close: Callable[[], None] | None = getattr(results, "close", None)
    if close is None:
        raise ContractBroken(f"{spec.entry} returns {results!r}; make it a generator, which a caller can close early")
    close()


@sent_to_jobs
def begin_square(offset: int) -> Callable[[int], int]:
    """Returns the work of the check: the square of a piece, plus the setup."""
    return lambda piece: piece * piece + offset


@sent_to_jobs
def begin_nothing(setup: Any) -> Callable[[Any], Any]:
    """Refuses to begin, as without pieces there is nothing to do."""
    raise ContractBroken("begin is called although there are no pieces; return at once")


@sent_to_jobs
def begin_failing(offset: int) -> Callable[[int], int]:
    """Returns work of which one piece fails."""

    def do(piece: int) -> int:
        if piece == REFUSED:
            raise ContractBroken(f"piece {REFUSED} fails on purpose")
        return piece + offset

    return do


def _squares(offset: int, pieces: Sequence[int]) -> list[int]:
    return [piece * piece + offset for piece in pieces]


def _check_results(spec: ExecutorSpec, made: Executor, pieces: Sequence[int]) -> None:
    found, expected = sorted(made(begin_square, 7, pieces)), _squares(7, pieces)
    if found != expected:
        raise ContractBroken(
            f"{spec.entry} gives the results {found} of {len(pieces)} pieces, not {expected}; yield the result of "
            "every piece once, in any order"
        )


def _check_failure(spec: ExecutorSpec, made: Executor) -> None:
    pieces = [*range(3), REFUSED]
    try:
        found = list(made(begin_failing, 0, pieces))
    except MirageError:
        return
    except Exception as error:
        raise ContractBroken(f"{spec.entry} turns the error of a piece into {error!r}; raise a MirageError") from error
    raise ContractBroken(f"{spec.entry} hides the error of a piece and gives {found}; let it end the call")
