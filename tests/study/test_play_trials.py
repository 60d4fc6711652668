"""Trials on an executor, with a journal, failures and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import ConfigurationError, SlurmError
from mirage.study.executors.local_processes import LocalProcesses
from mirage.study.journal import TrialJournal
from mirage.study.play_trials import TrialResults, play_trials
from mirage.study.trial import TrialFailure


def divided_by(divisor: int) -> Callable[[int], tuple[int, float | TrialFailure]]:
    """Divides one number after another; 13 cannot be divided."""
    return lambda number: (number, TrialFailure("bad luck") if number == 13 else number / divisor)


def journal_in(folder: Path) -> TrialJournal[int, float]:
    return TrialJournal(folder / "quotients.jsonl", str, lambda plain: float(plain["is"]), lambda value: {"is": value})


def quotients(*numbers: int, **options: Any) -> TrialResults[int, float]:
    return play_trials(divided_by, 4, numbers, **options)


def fails_after(number: int) -> Any:
    """An executor that fails after some pieces."""

    def executor(begin: Any, setup: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        yield from map(begin(setup), pieces[:number])
        raise SlurmError("job 7 failed")

    return executor


def test_what_was_played_is_not_played_again(tmp_path: Path) -> None:
    first = quotients(2, 6, journal=journal_in(tmp_path))
    assert (first.found, first.failures, first.reused) == ({2: 0.5, 6: 1.5}, {}, 0)
    completed: list[tuple[int, int]] = []
    prepared: list[Sequence[int]] = []
    again = quotients(
        2, 10, 6, 5,
        journal=journal_in(tmp_path), progress=lambda *at: completed.append(at), prepare=prepared.append,
    )  # fmt: skip
    assert (again.found, again.reused) == ({2: 0.5, 6: 1.5, 10: 2.5, 5: 1.25}, 2)
    assert (completed, prepared) == ([(2, 4), (3, 4), (4, 4)], [[10, 5]])
    whole = quotients(2, 10, journal=journal_in(tmp_path), prepare=prepared.append)
    assert (whole.found, whole.reused, len(prepared)) == ({2: 0.5, 10: 2.5}, 2, 1)


def test_what_cannot_be_played_is_refused_before_anything_is(tmp_path: Path) -> None:
    def refuse(left: Sequence[int]) -> None:
        raise ConfigurationError(f"{left} are odd")

    with pytest.raises(ConfigurationError, match=r"\[3, 5\] are odd"):
        quotients(3, 5, journal=journal_in(tmp_path), prepare=refuse)
    assert quotients(3, 5, journal=journal_in(tmp_path)).reused == 0


def test_a_failed_trial_counts_as_finished_and_is_played_again(tmp_path: Path) -> None:
    completed: list[tuple[int, int]] = []
    for reused in (0, 1):
        played = quotients(13, 6, journal=journal_in(tmp_path), progress=lambda *at: completed.append(at))
        assert (played.found, played.failures, played.reused) == ({6: 1.5}, {13: "bad luck"}, reused)
        assert completed[-1] == (2, 2)


def test_a_failure_of_the_executor_leaves_what_was_played(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="job 7 failed"):
        quotients(2, 6, 8, journal=journal_in(tmp_path), executor=fails_after(1))
    assert quotients(2, 6, 8, journal=journal_in(tmp_path)).reused == 1
    played = quotients(2, 13, 6, 8, executor=fails_after(2), may_fail=True)
    assert played.found == {2: 0.5}
    assert played.failures == {13: "bad luck", 6: "not played: job 7 failed", 8: "not played: job 7 failed"}
    with pytest.raises(SlurmError, match="job 7 failed"):
        quotients(2, 6, executor=fails_after(0), may_fail=True)


def test_processes_give_the_same_results(tmp_path: Path) -> None:
    both = [quotients(*range(20), executor=LocalProcesses(workers)) for workers in (1, 2)]
    assert (both[0].found, both[0].failures) == (both[1].found, both[1].failures)
