"""A training takes over: never two trainers, whatever is killed or unanswered."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mirage.agent.chain.tag import Tag, parse_tag
from mirage.agent.takeover import EVERY_S, CheckpointMarker, TakenOver, TakeOver, newest_checkpoint, signal_after_s
from mirage.errors import MirageError, SlurmRefused, SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Queue, QueuedJob

RUNS, ENDED = JobState.RUNNING, JobState.COMPLETED
OWN = Tag("train", 2, "safe", "deer")


def job(link: int, state: JobState = RUNS, ready_s: int = -1, **known: Any) -> QueuedJob:
    comment = str(Tag("train", link, known.pop("store", "safe"), known.pop("key", "deer"), ready_s=ready_s))
    return QueuedJob(100 + link, state, **{"user": "ada", "start_s": 50, "comment": comment, **known})


class Slurm:
    """A queue that changes at given times, and fails at others.

    Attributes:
        changes: What happens at which second.
    """

    def __init__(self, *jobs: QueuedJob) -> None:
        self.jobs = {one.id: one for one in jobs}
        self.changes: dict[float, Callable[[], object]] = {}
        self.silent = self.now_s = 0.0
        self.calls: list[tuple[object, ...]] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for at_s in sorted(self.changes):
            if at_s <= self.now_s:
                self.changes.pop(at_s)()

    def at(self, at_s: float, link: int, state: JobState, **known: Any) -> None:
        """A job has another state from then on."""
        self.changes[at_s] = lambda: self.jobs.__setitem__(100 + link, job(link, state, **known))

    def _answer(self) -> None:
        if self.silent:
            raise SlurmUnreachable("no answer")

    def observe(self) -> Queue:
        self._answer()
        self.calls.append(("observe",))
        return Queue(0, tuple(self.jobs.values()))

    def observe_jobs(self, numbers: list[int]) -> tuple[QueuedJob, ...]:
        self._answer()
        return tuple(self.jobs[number] for number in numbers if number in self.jobs)

    def update(self, number: int, changes: dict[str, str]) -> None:
        self._answer()
        self.calls.append(("update", number))
        self.jobs[number] = replace(self.jobs[number], **{key.lower(): value for key, value in changes.items()})

    def signal(self, numbers: list[int], name: str, *, to_batch_shell: bool) -> None:
        self._answer()
        self.calls.append(("signal", tuple(numbers), name, to_batch_shell))

    @property
    def signals(self) -> list[tuple[object, ...]]:
        return [call for call in self.calls if call[0] == "signal"]


def takes_over(slurm: Slurm, tag: Tag | None = OWN, **settings: Any) -> TakenOver:
    lines: list[str] = []
    wait = TakeOver(
        cast(SlurmClient, slurm), 102, tag, ("USR2", False), lambda: 1_000 + slurm.now_s, lambda: slurm.now_s,
        slurm.sleep, lines.append, **settings,
    )  # fmt: skip
    slurm.lines = lines  # type: ignore[attr-defined]
    return wait.run()


def test_a_job_is_ready_waits_and_trains() -> None:
    slurm = Slurm(job(1, ready_s=60), job(2))
    slurm.at(30, 1, ENDED)
    result = takes_over(slurm)
    assert [one.id for one in result.previous] == [101]
    assert (result.waited_s, result.signalled) == (30, False)
    assert parse_tag(slurm.jobs[102].comment) == replace(OWN, ready_s=1_000)
    assert slurm.calls[:3] == [("observe",), ("update", 102), ("observe",)], "ready first, and then it reads the queue"
    assert slurm.lines == ["ready; waits until job 101 has left"]  # type: ignore[attr-defined]


def test_the_first_job_of_a_chain_trains_at_once() -> None:
    assert takes_over(Slurm(job(2))) == TakenOver((), 0, False)


@pytest.mark.parametrize(
    "other",
    [
        job(1, user="eve"), job(1, key="geese"), job(1, store="fern"), job(1, JobState.PENDING), job(1, ENDED),
        job(1, JobState.CANCELLED), job(1, JobState.NODE_FAIL), job(3), job(3, JobState.PENDING, ready_s=60),
        job(3, ready_s=49), job(3, ENDED, ready_s=60), replace(job(1), comment="mine"),
    ],
)  # fmt: skip
def test_other_jobs_are_not_waited_for(other: QueuedJob) -> None:
    """Jobs of others, of other chains, pending, ended, and later ones that are not ready."""
    assert takes_over(Slurm(other, job(2))).previous == ()


@pytest.mark.parametrize(
    ("state", "completing"),
    [(RUNS, False), (RUNS, True), (JobState.SUSPENDED, False), (JobState.UNKNOWN, False), (JobState.PENDING, True)],
)
def test_a_job_that_may_still_write_is_waited_for(state: JobState, completing: bool) -> None:
    slurm = Slurm(job(1, state, completing=completing), job(2))
    slurm.at(10, 1, JobState.CANCELLED, completing=True)
    slurm.at(20, 1, JobState.CANCELLED)
    assert takes_over(slurm).waited_s == 20


def test_a_later_job_that_has_taken_over_stops_a_requeued_one() -> None:
    slurm = Slurm(job(2), job(3, ready_s=60))
    with pytest.raises(MirageError, match="link 3 of chain train has taken over: job 103 is ready"):
        takes_over(slurm)


def test_an_earlier_job_that_starts_again_meanwhile_is_waited_for_too() -> None:
    slurm = Slurm(job(0), job(1, JobState.PENDING), job(2))
    slurm.at(10, 1, RUNS)
    slurm.at(15, 0, ENDED)
    slurm.at(40, 1, ENDED)
    result = takes_over(slurm)
    assert (result.waited_s, [one.id for one in result.previous]) == (40, [101])


def test_without_an_agent_the_job_signals_itself_once() -> None:
    slurm = Slurm(job(1), job(2))
    slurm.at(150, 1, ENDED)
    result = takes_over(slurm, signal_after_s=100)
    assert result.signalled
    assert slurm.signals == [("signal", (101,), "USR2", False)]


@pytest.mark.parametrize("error", [SlurmRefused("it has ended"), SlurmUnreachable("no answer")])
def test_a_signal_that_fails_ends_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm, tried = Slurm(job(1), job(2)), []

    def signal(*_: object, **__: object) -> None:
        tried.append(slurm.now_s)
        raise error

    monkeypatch.setattr(slurm, "signal", signal)
    slurm.at(120, 1, ENDED)
    takes_over(slurm, signal_after_s=100)
    assert tried == ([100] if isinstance(error, SlurmRefused) else [100, 105, 110, 115]), "silence: tried again"


def test_a_job_that_saves_within_its_grace_gets_no_second_signal() -> None:
    graces = ({}, {"MIRAGE_GRACE": "60"}, {"MIRAGE_GRACE": "600"})
    assert [signal_after_s(one, 2700) for one in graces] == [120, 120, 660]
    assert [signal_after_s(one, 600) for one in graces] == [120, 120, 480], "signalled before this job gives up"
    assert [signal_after_s(one, 100) for one in graces] == [120] * 3


def test_a_job_that_does_not_leave_is_never_joined() -> None:
    slurm = Slurm(job(1), job(2))
    with pytest.raises(MirageError, match=r"job 101 still runs after 10 min \(--max-overlap\)"):
        takes_over(slurm, most_s=600)
    assert slurm.now_s == 600


@pytest.mark.parametrize("from_s", [0, 12])
def test_silence_of_slurm_is_not_the_end_of_a_job(from_s: int) -> None:
    slurm = Slurm(job(1), job(2))
    slurm.silent = not from_s
    slurm.changes |= {
        from_s + 0.5: lambda: setattr(slurm, "silent", True),
        100: lambda: setattr(slurm, "silent", False),
    }
    slurm.at(50, 1, ENDED)
    takes_over(slurm)
    assert slurm.now_s >= 100
    assert "Slurm answers again" in slurm.lines  # type: ignore[attr-defined]
    assert sum("does not answer" in line for line in slurm.lines) == 1  # type: ignore[attr-defined]


def test_silence_without_an_end_is_no_permission() -> None:
    slurm = Slurm(job(1), job(2))
    slurm.changes[20] = lambda: setattr(slurm, "silent", True)
    with pytest.raises(MirageError, match="whether an earlier job still trains is unknown"):
        takes_over(slurm, most_s=300)


def test_a_job_that_the_controller_forgets_has_left() -> None:
    """It is absent from two answers: of the query for it, and of the whole queue."""
    slurm = Slurm(job(1), job(2))
    slurm.changes[20] = lambda: slurm.jobs.pop(101)
    assert takes_over(slurm).waited_s == 20


def test_the_tag_of_an_adopted_job_is_in_its_comment() -> None:
    assert takes_over(Slurm(job(1, ENDED), job(2)), tag=None).previous == ()
    with pytest.raises(MirageError, match="this is not a job of a chain"):
        takes_over(Slurm(replace(job(2), comment="")), tag=None)


def test_in_a_chain_without_an_agent_its_files_name_the_jobs(tmp_path: Path) -> None:
    """All earlier jobs are waited for, also one before a job that has left already."""
    for link, number in ((9, 100), (10, 101), (11, 102), (12, 103)):
        (tmp_path / f"link.{link}").write_text(f"job={number} next= freed=0 quick=1\n")
    (tmp_path / "link.sh").write_text("job=7\n")
    slurm = Slurm(job(0), job(1, ENDED), job(2), job(3))
    slurm.changes[20] = lambda: slurm.jobs.pop(100)
    result = takes_over(slurm, tag=None, ready_file=str(tmp_path / "ready.11"))
    assert ([one.id for one in result.previous], result.waited_s) == ([100], 20)
    assert (tmp_path / "ready.11").exists()
    assert slurm.calls == [], "no comment is changed"
    with pytest.raises(MirageError, match="cannot write /nowhere/ready"):
        takes_over(slurm, tag=None, ready_file="/nowhere/ready.2")
    with pytest.raises(MirageError, match="cannot be found"):
        takes_over(slurm, tag=None, ready_file=str(tmp_path / "ready.now"))


def test_queries_are_as_far_apart_as_the_site_wants() -> None:
    slurm, queried = Slurm(job(1), job(2)), []
    slurm.observe_jobs = lambda numbers: queried.append(slurm.now_s) or (slurm.jobs[101],)  # type: ignore[assignment,func-returns-value]
    with pytest.raises(MirageError):
        takes_over(slurm, most_s=500, every_s=120)
    assert queried == [120, 240, 360, 480, 600]
    assert EVERY_S < 120


# -- checkpoints --------------------------------------------------------------------------------------------


def changed(path: Path, at_s: int) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.touch()
    os.utime(path, (at_s, at_s))


def test_the_newest_checkpoint_is_that_changed_last(tmp_path: Path) -> None:
    assert newest_checkpoint("step_*", str(tmp_path)) is None
    for name, at_s in (("step_100/model", 4_000), ("step_9/model", 3_000)):
        changed(tmp_path / name, at_s)
    for folder in ("step_100", "step_9"):
        os.utime(tmp_path / folder, (1_000, 1_000))
    assert newest_checkpoint("step_*", str(tmp_path)) == CheckpointMarker(str(tmp_path / "step_100"), 4_000 * 10**9)
    changed(tmp_path / "last.pt", 5_000)
    changed(tmp_path / "step_101.tmp", 6_000)
    assert newest_checkpoint(str(tmp_path / "*"), "/").text == str(tmp_path / "last.pt")  # type: ignore[union-attr]


def test_a_progress_file_stands_for_its_highest_saved_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "progress").write_text('{"step": 12}\n{"saved": 10}\n{"step": 14}\n{"saved": 9}\n')
    assert newest_checkpoint("progress", str(tmp_path)) == CheckpointMarker("10", 10)
    monkeypatch.chdir(tmp_path)
    assert newest_checkpoint("progress", ".") == CheckpointMarker("10", 10)
    (tmp_path / "[1]").mkdir()
    (tmp_path / "progress").rename(tmp_path / "[1]" / "progress")
    assert newest_checkpoint("*/progress", ".") == CheckpointMarker("10", 10)


@pytest.mark.parametrize("text", ['{"step": 7}\n', '{"step": 5, "saved": true}\n', '{"stop": "USR2"}\n', ""])
def test_a_progress_file_without_a_saved_step_stands_for_no_checkpoint(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress").write_text(text)
    assert newest_checkpoint("progress", str(tmp_path), only_steps=True) is None
    assert (newest_checkpoint("progress", str(tmp_path)) is None) == ("step" in text)
