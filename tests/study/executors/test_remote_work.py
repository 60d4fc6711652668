"""Remote work through a folder: stored results, abandoned calls, and removed folders."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, SlurmError
from mirage.study.executors.remote_work import GONE_S, PATIENCE_S, RemoteWork
from mirage.study.executors.work_codec import sent_to_jobs


class FakeClock:
    """A clock on which sleeping takes no time; each sleep runs an action of the test."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile: list[object] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def create(self, around: Path, begin, setup, pieces) -> RemoteWork:
        return RemoteWork.create(around, begin, setup, pieces, self.sleep, lambda: self.now_s)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@sent_to_jobs
def noting(path: str):
    """What is done: a line for every beginning and every piece."""

    def note(word: object) -> None:
        with Path(path).open("a") as file:
            file.write(f"{word} ")

    note("begun")

    def work(piece: int) -> int:
        if piece < 0:
            raise ValueError(piece)
        note(piece)
        return 10 * piece

    return work


def noted(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def silent_for(work: RemoteWork, minutes: float) -> None:
    """Sets the caller's last heartbeat to a number of minutes ago."""
    sign = work.folder / "waited-for"
    ago_s = sign.stat().st_mtime - 60 * minutes
    os.utime(sign, (ago_s, ago_s))


def test_results_come_as_they_are_written(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])
    clock.meanwhile = [lambda: work.do_part(1, 2), lambda: work.do_part(0, 2)]
    results: Iterator[int] = work.results(lambda: False)
    assert [next(results), next(results)] == [20, 30]
    assert noted(tmp_path / "notes") == "begun 2 3 "
    assert list(results) == [10]
    work.remove()
    assert not (tmp_path / "jobs").exists()


def test_a_part_that_is_restarted_resumes_at_its_piece(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, -3, 4])
    with pytest.raises(ValueError, match="-3"):
        work.do([0, 1, 2, 3])
    work.do([0, 1, 3])
    assert noted(tmp_path / "notes") == "begun 1 2 begun 4 "


def test_results_before_a_failure_are_returned(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])

    def over() -> bool:
        work.do([0, 2])
        raise SlurmError("a job failed")

    results = work.results(over)
    assert [next(results), next(results)] == [10, 30]
    with pytest.raises(SlurmError, match="a job failed"):
        next(results)


def test_missing_results_are_reported_in_the_end(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2, 3])
    work.do([1])
    results = work.results(lambda: True)
    assert next(results) == 20
    with pytest.raises(
        SlurmError, match=r"all jobs or tasks have ended, but 2 of 3 pieces have no result in .*: they were cancelled"
    ):
        next(results)
    assert PATIENCE_S < clock.now_s < 2 * PATIENCE_S


@pytest.mark.parametrize("given_up", ["left", "killed"])
def test_abandoned_work_ends_before_the_next_piece(clock: FakeClock, tmp_path: Path, given_up: str) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2])
    work.do([0])
    if given_up == "left":
        work.abandon()
    else:
        silent_for(work, GONE_S / 60 + 1)
    work.do([1])
    assert noted(tmp_path / "notes") == "begun 1 "


def test_the_caller_renews_its_heartbeat_at_every_poll(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2])
    silent_for(work, GONE_S / 60 + 1)
    clock.meanwhile = [lambda: work.do([0, 1])]
    assert list(work.results(lambda: False)) == [10, 20]


def test_the_end_of_one_call_leaves_another_s_work(clock: FakeClock, tmp_path: Path) -> None:
    one, other, killed, left = (clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1]) for _ in range(4))
    silent_for(killed, GONE_S / 60 + 1)
    left.abandon()
    one.remove()
    assert list((tmp_path / "jobs").iterdir()) == [other.folder]
    other.do([0])
    assert list(other.results(lambda: True)) == [10]


def test_a_folder_that_cannot_be_created_is_reported(clock: FakeClock, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot write the work to .*/file/jobs: Not a directory"):
        clock.create(tmp_path / "file" / "jobs", noting, "", [1])


def test_a_part_leaves_its_error(clock: FakeClock, tmp_path: Path) -> None:
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, -2, 3])
    assert work.error_of(0) is None
    work.do_part(0, 3)
    assert work.error_of(0) == ""
    with pytest.raises(ValueError, match="-2"):
        work.do_part(1, 3)
    assert work.error_of(1) == "ValueError: -2"


class _Planted:
    """What an attacker pickles: reading it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.path,)


def test_a_pickle_in_the_folder_is_not_executed(clock: FakeClock, tmp_path: Path) -> None:
    planted = pickle.dumps(_Planted(tmp_path / "executed"))
    pickle.loads(planted)
    (tmp_path / "executed").unlink()  # so it would be executed
    work = clock.create(tmp_path / "jobs", noting, str(tmp_path / "notes"), [1, 2])
    (work.folder / "0.result").write_bytes(planted)
    with pytest.raises(ConfigurationError, match=r"/0\.result is not a file of work or results as this version"):
        next(work.results(lambda: False))
    (work.folder / "work").write_bytes(planted)
    with pytest.raises(ConfigurationError, match=r"/work is not a file of work or results as this version"):
        work.do_part(1, 2)
    assert str(work.error_of(1)).startswith("mirage.errors.ConfigurationError: /")
    assert not (tmp_path / "executed").exists()
