"""Processes of this machine."""

from __future__ import annotations

import pytest

from mirage.errors import MirageError
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.executor_work import failing, killed


def test_each_piece_has_one_result() -> None:
    assert sorted(LocalProcesses(2)(failing, -1, range(9))) == list(range(9))
    assert list(LocalProcesses(1)(failing, -1, range(9))) == list(range(9))
    assert list(LocalProcesses(2)(failing, -1, [])) == []


def test_an_error_of_a_piece_is_raised_here() -> None:
    with pytest.raises(ValueError, match="3 cannot be halved"):
        list(LocalProcesses(2)(failing, 3, range(9)))


def test_a_process_that_is_killed_is_reported_with_the_remedy() -> None:
    with pytest.raises(MirageError, match=r"a worker process ended unexpectedly \(.*abruptly.*\); .*fewer --workers"):
        list(LocalProcesses(2)(killed, 3, range(9)))
