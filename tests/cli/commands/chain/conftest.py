"""A terminal and a small store with three chains: running, new and done."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.model import ChainSpec, ChainState, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.job_state import JobState
from mirage.slurm.records import Queue, QueuedJob, Submission

NOW_S = 1_790_000_000
"""2026-09-21T14:13:20 UTC."""

LINKS = [
    Link(
        1, 1, LinkState.ENDED, 101, NOW_S - 20_000, NOW_S - 20_000, NOW_S - 20_000, NOW_S - 19_000, 7_200,
        ended_s=NOW_S - 11_800, outcome=JobState.TIMEOUT,
    ),
    Link(
        1, 2, LinkState.RUNNING, 102, NOW_S - 18_900, NOW_S - 18_900, NOW_S - 15_000, NOW_S - 10_000, 14_400,
    ),
    Link(1, 3, LinkState.HELD, 103, NOW_S - 9_900, NOW_S - 9_900),
]  # fmt: skip
DECISIONS = [
    DecisionRecord(1, 1, NOW_S - 15_060, "lead:2", False, "lead-not-reached:lead_s=7200"),
    DecisionRecord(
        1, 1, NOW_S - 15_000, "lead:2", True, "lead-reached:lead_s=7200",
        {"wait_s": 5_400.4, "chance": 0.123456, "forever_s": float("inf")}, {"pending": 12.0, "free_nodes": 2.5},
    ),
]  # fmt: skip
EVENTS = [
    EventRecord(1, 0, NOW_S - 20_000, "created", "by ada"),
    EventRecord(1, 1, NOW_S - 19_000, "started", "job 101 on n1"),
    EventRecord(1, 1, NOW_S - 11_800, "ended"),
]


class Slurm:
    """Records its calls, and shows the jobs that it is given."""

    user = "ada"

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.jobs: tuple[QueuedJob, ...] = ()
        self.trouble: Exception | None = None
        self.options = {"clustername": "c1", "slurmctldhost[0]": "head", "slurmctldport": "6817"}

    def probe(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def configuration(self) -> dict[str, str]:
        if self.trouble is not None:
            raise self.trouble
        return self.options

    def test(self, submission: Submission) -> str:
        if self.trouble is not None:
            raise self.trouble
        return ""

    def observe(self) -> Queue:
        if self.trouble is not None:
            raise self.trouble
        return Queue(NOW_S, self.jobs)

    def observe_jobs(self, numbers: Sequence[int]) -> tuple[QueuedJob, ...]:
        return tuple(job for job in self.observe().jobs if job.id in numbers)

    def cancel(self, job: int, *, only_pending: bool = False) -> None:
        self.calls.append(("cancel", job, *(["only pending"] if only_pending else [])))

    def update(self, job: int, changes: dict[str, str]) -> None:
        self.calls.append(("update", job, changes))


Type = Callable[..., tuple[str, str]]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm()
    monkeypatch.setattr(cluster, "client", lambda *_: made)
    return made


@pytest.fixture(scope="package")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store as every test finds it, made once."""
    folder = tmp_path_factory.mktemp("template")
    with closing(open_store(f"sqlite:///{folder}/store.db")) as made:
        spec = ChainSpec(Submission("serve.sh"), policy="lead:2")
        made.add_chain("serve", spec, NOW_S - 20_000)
        made.change_link(1, 1, **_columns(LINKS[0]))
        for link in LINKS[1:]:
            made.add_link(link)
        made.add_decisions(DECISIONS)
        made.change_chain(1, *EVENTS)
        made.add_chain("train", spec, NOW_S - 5)
        made.add_chain("train-old", spec, NOW_S - 90_000)
        made.change_chain(3, state=ChainState.DONE, why="3 links ran")
    return folder


@pytest.fixture
def store(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """A copy of the store; the clock stands still, in UTC."""
    shutil.copytree(template, tmp_path / "home")
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MIRAGE_STORE", raising=False)
    monkeypatch.setattr(cluster, "clock", lambda: NOW_S + 0.9)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        with closing(open_store(cluster.home().store_url)) as opened:
            yield opened
    time.tzset()


def _columns(link: Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in link.__dataclass_fields__ if name not in ("chain", "number")}


@pytest.fixture
def type_(store: SqlStore, capsys: pytest.CaptureFixture[str]) -> Type:
    def typed(*words: str, status: int = 0) -> tuple[str, str]:
        done = main(list(words))
        printed = capsys.readouterr()
        assert done == status, printed
        return printed.out, printed.err

    return typed
