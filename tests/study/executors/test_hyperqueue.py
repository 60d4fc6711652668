"""Tasks of HyperQueue, on a server and workers of its own that run here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, SlurmError
from mirage.study.executors.hyperqueue import SERVER, HyperQueue
from mirage.study.executors.work_codec import sent_to_jobs
from tests.support import hyperqueue_server
from tests.support.executor_work import failing, waiting
from tests.support.waiting import terminate, until


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A server with a worker of one core; its folder is in the environment."""
    folder = tmp_path / "server"
    folder.mkdir()
    monkeypatch.setenv(SERVER, str(folder))
    with subprocess.Popen([sys.executable, hyperqueue_server.__file__, folder], stdout=subprocess.DEVNULL) as process:
        until((folder / "hq-current" / "access.json").exists, 20, "a server")
        yield process
        terminate(process)


@sent_to_jobs
def doubling(by: int):
    """What tasks do: numbers times one that they begin with."""
    begun = os.getpid()
    return lambda piece: (piece, piece * by, begun)


@sent_to_jobs
def total(numbers: np.ndarray):
    return lambda piece: int(numbers.sum())


@sent_to_jobs
def ending(_: None):
    def work(piece: int) -> int:
        os._exit(7)

    return work


def test_each_piece_is_done_once_and_each_task_begins_once(server, tmp_path: Path) -> None:
    found = list(HyperQueue(tmp_path / "jobs", tasks=3)(doubling, 2, range(7)))
    assert sorted((piece, made) for piece, made, _ in found) == [(k, 2 * k) for k in range(7)]
    assert len({begun for *_, begun in found}) == 3
    assert os.getpid() not in {begun for *_, begun in found}
    assert not (tmp_path / "jobs").exists()


def test_no_pieces_need_no_server(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(SERVER, str(tmp_path / "absent"))
    assert list(HyperQueue(tmp_path / "jobs")(doubling, 2, [])) == []


def test_a_failed_task_reports_its_error_and_its_output(server, tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match=r"task 1@1 of HyperQueue failed: ValueError: 3 cannot be halved") as error:
        list(HyperQueue(tmp_path / "jobs", tasks=2)(failing, 3, range(4)))
    output = str(error.value).partition("its output is in ")[2].partition(". Run the same")[0]
    assert "Traceback" in Path(output).read_text()


def test_what_was_done_before_a_failure_is_handed_over(server, tmp_path: Path) -> None:
    results = HyperQueue(tmp_path / "jobs", tasks=1)(failing, 3, range(5))
    assert [next(results), next(results), next(results)] == [0, 1, 2]
    with pytest.raises(SlurmError):
        list(results)


def test_what_all_tasks_are_made_of_may_be_large(server, tmp_path: Path) -> None:
    large = np.arange(5_000_000)
    assert list(HyperQueue(tmp_path / "jobs", tasks=8)(total, large, range(8))) == [int(large.sum())] * 8


def test_a_task_that_ends_without_a_result_is_reported(server, tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="exit code 7"):
        list(HyperQueue(tmp_path / "jobs", tasks=1)(ending, None, [1]))


def test_abandoned_tasks_end_before_their_next_piece(server, tmp_path: Path) -> None:
    results = HyperQueue(tmp_path / "jobs", tasks=2)(waiting, str(tmp_path), range(4))
    (tmp_path / "leave-0").touch()
    (tmp_path / "leave-1").touch()
    assert [next(results), next(results)] == [0, 1]
    until((tmp_path / "begun-2").exists, 20, "the second task")
    results.close()
    (tmp_path / "leave-2").touch()
    (tmp_path / "leave-3").touch()
    assert len(list(HyperQueue(tmp_path / "more")(doubling, 2, [1]))) == 1  # the one core is free only after both
    assert not (tmp_path / "begun-3").exists()


def test_a_lost_server_is_reported(server, tmp_path: Path) -> None:
    results = HyperQueue(tmp_path / "jobs", tasks=2)(waiting, str(tmp_path), range(2))
    (tmp_path / "leave-0").touch()
    assert next(results) == 0
    server.kill()
    server.wait()
    (tmp_path / "leave-1").touch()
    with pytest.raises(SlurmError, match=r"does not answer: .*hq server info") as error:
        list(results)
    assert "backtrace" not in str(error.value)


def test_without_a_server_the_error_names_the_command_to_start_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(SERVER, str(tmp_path / "absent"))
    with pytest.raises(ConfigurationError, match="hq alloc add slurm") as error:
        list(HyperQueue(tmp_path / "jobs")(doubling, 2, [1]))
    assert f'"{tmp_path / "absent"}" is not a directory' in str(error.value)
    assert "backtrace" not in str(error.value)
    assert not (tmp_path / "jobs").exists()


def test_without_the_package_it_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperqueue", None)
    with pytest.raises(ConfigurationError, match="pip install hyperqueue==VERSION"):
        list(HyperQueue(tmp_path / "jobs")(doubling, 2, [1]))
