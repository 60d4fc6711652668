"""``mirage link``: what a job reports of itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.drain import Reading
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob

NOW_S = 1_790_000_000
"""Now, in the store of these tests."""

OURS = "mirage:serve:2:safe.deer"

Type = Callable[..., tuple[str, str]]


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, slurm: Any) -> Any:
    """The environment of link 2 of serve, job 102."""
    for name, value in (("MIRAGE_TAG", OURS), ("SLURM_JOB_ID", "102")):
        monkeypatch.setenv(name, value)
    return slurm


@pytest.mark.parametrize(
    ("word", "comment", "written"),
    [
        ("ready", OURS, f"{OURS} ready@{NOW_S}"),
        ("ready", f"{OURS} ready@7 | mine", f"{OURS} ready@{NOW_S} | mine"),
        ("ready", "changed by hand", f"{OURS} ready@{NOW_S}"),
        ("done", f"{OURS} ready@7", f"{OURS} ready@7 done"),
        ("done", "", f"{OURS} done"),
    ],
)
def test_a_job_writes_its_word_in_its_own_comment(
    type_: Type, inside: Any, word: str, comment: str, written: str
) -> None:
    inside.jobs = (QueuedJob(102, JobState.RUNNING, comment=comment),)
    assert type_("link", word) == ("", "")
    assert inside.calls == [("update", 102, {"Comment": written})]


@pytest.mark.parametrize(
    ("after", "when"), [("0", "from its start on"), ("5400", "01:30:00 after its start (--warmup)"), (None, "")]
)
def test_a_word_that_does_not_count_is_answered_with_a_remark(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch, after: str | None, when: str
) -> None:
    if after is not None:
        monkeypatch.setenv("MIRAGE_READY_AFTER", after)
    remark = (
        f"mirage: `mirage link ready` is ignored: chain serve takes each job to be ready {when}; submit it with "
        "--ready-by-job, so that it waits for this report\n"
    )
    assert type_("link", "ready") == ("", remark if when else "")
    assert inside.calls == [("update", 102, {"Comment": f"{OURS} ready@{NOW_S}"})]
    assert type_("link", "done") == ("", "")


def test_a_job_that_is_done_ends_every_later_job_of_its_chain_and_no_other(type_: Type, inside: Any) -> None:
    def later(number: int, state: JobState = JobState.PENDING, user: str = "ada", comment: str = "") -> QueuedJob:
        return QueuedJob(number, state, user=user, comment=comment or f"mirage:serve:{number - 100}:safe.deer")

    inside.jobs = (
        later(101),
        later(102, JobState.RUNNING, comment=f"{OURS} ready@7"),
        later(103, comment="mirage:serve:3:safe.deer | mine"),
        later(104, JobState.RUNNING),
        later(105, JobState.CANCELLED),
        later(106, user="eve"),
        later(107, comment="mirage:serve:3:fern.deer"),
        later(108, comment="mirage:train:3:safe.geese"),
        later(109, comment="mirage"),
    )
    type_("link", "done")
    assert inside.calls == [
        ("update", 102, {"Comment": f"{OURS} ready@7 done"}), ("cancel", 103), ("cancel", 104),
    ]  # fmt: skip


def test_a_job_that_the_queue_does_not_show_writes_its_word_and_touches_no_other(type_: Type, inside: Any) -> None:
    inside.jobs = (QueuedJob(103, JobState.PENDING, user="eve", comment="mirage:serve:3:safe.deer"),)
    type_("link", "done")
    assert inside.calls == [("update", 102, {"Comment": f"{OURS} done"})]


@pytest.mark.parametrize(("tag", "value"), [(OURS, ""), (OURS, "102_3"), ("", "102_3")])
def test_a_job_without_slurms_variables_is_named(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch, tag: str, value: str
) -> None:
    monkeypatch.setenv("MIRAGE_TAG", tag)
    monkeypatch.setenv("SLURM_JOB_ID", value)
    assert f"SLURM_JOB_ID is '{value}', no number of a job: run" in type_("link", "ready", status=1)[1]
    assert inside.calls == []


@pytest.mark.parametrize(("name", "value"), [("MIRAGE_TAG", ""), ("MIRAGE_TAG", "mirage:serve:two")])
def test_a_word_outside_a_job_of_a_chain_is_refused(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    inside.jobs = (QueuedJob(102, JobState.RUNNING, user="ada", comment="mine"),)
    monkeypatch.setenv(name, value)
    assert type_("link", "ready", status=1)[1] == (
        "mirage: error: this is not a job of a chain: neither MIRAGE_TAG nor the comment of the job SLURM_JOB_ID shows "
        "one; submit it with `mirage submit`, or `mirage adopt` it\n"
    )
    assert inside.calls == []


@pytest.mark.parametrize("word", ["ready", "done", "takeover"])
def test_a_job_that_a_link_has_submitted_is_no_link(type_: Type, inside: Any, word: str) -> None:
    link = QueuedJob(101, JobState.RUNNING, user="ada", comment=f"{OURS} ready@7")
    inside.jobs = (link, QueuedJob(102, JobState.RUNNING, user="ada", name="eval"))
    assert type_("link", word, status=1)[1] == (
        "mirage: error: job 102 is no job of chain serve: link 2 is job 101, and job 102 has only inherited its "
        "environment (MIRAGE_TAG); run this in the script of the chain\n"
    )
    assert inside.calls == []


def test_an_adopted_job_has_its_tag_in_its_comment_only(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIRAGE_TAG")
    inside.jobs = (QueuedJob(102, JobState.RUNNING, user="ada", comment=f"{OURS} | mine"),)
    type_("link", "done")
    assert inside.calls[0] == ("update", 102, {"Comment": f"{OURS} done | mine"})


def test_takeover_is_ready_waits_and_prints_the_newest_checkpoint(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    earlier = QueuedJob(101, JobState.RUNNING, user="ada", comment="mirage:serve:1:safe.deer", start_s=5)
    own = QueuedJob(102, JobState.RUNNING, user="ada", comment=OURS, start_s=9)
    inside.jobs = (earlier, own)
    progress = tmp_path / "progress"
    progress.write_text('{"saved": 10}\n')

    def leaves(numbers: list[int]) -> tuple[QueuedJob, ...]:
        inside.jobs = (own,)
        if saves:
            progress.write_text('{"saved": 10}\n{"saved": 12}\n')
        return ()

    monkeypatch.setattr(inside, "observe_jobs", leaves, raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setenv("MIRAGE_PROGRESS_FILE", str(progress))
    saves = True
    out, err = type_("link", "takeover")
    assert (out, err) == ("12\n", "mirage: ready; waits until job 101 has left\n")
    assert inside.calls == [("update", 102, {"Comment": f"{OURS} ready@{NOW_S}"})]
    saves, inside.jobs = False, (earlier, own)
    out, err = type_("link", "takeover", "--json")
    assert json.loads(out) == {
        "checkpoint": "12", "is_new": False, "previous_jobs": [101], "waited_s": 0.0, "signalled": False,
    }  # fmt: skip
    assert "warning: job 101 left without a new checkpoint: the newest is 12" in err


def test_takeover_fails_where_a_later_job_has_taken_over(type_: Type, inside: Any) -> None:
    later = QueuedJob(103, JobState.RUNNING, user="ada", comment="mirage:serve:3:safe.deer ready@70", start_s=60)
    inside.jobs = (QueuedJob(102, JobState.RUNNING, user="ada", comment=OURS), later)
    assert "link 3 of chain serve has taken over: job 103 is ready" in type_("link", "takeover", status=1)[1]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--signal", "USR3"), 1, "--signal 'USR3': there is no such signal for scancel; it takes HUP, INT"),
        (("--signal", "KILL"), 1, "--signal 'KILL': no program can handle this signal"),
        (("--signal", "none", "--signal-after", "5m"), 2, "--signal none sends no signal; leave it or --signal-after"),
        (("--signal-after", "46m"), 2, "--signal-after is longer than --max-overlap, so no signal would be sent"),
    ],
)
def test_a_signal_that_takeover_could_not_send_is_refused_at_once(
    type_: Type, inside: Any, words: tuple[str, ...], status: int, message: str
) -> None:
    assert message in " ".join(type_("link", "takeover", *words, status=status)[1].split())
    assert inside.calls == []


def test_takeover_without_a_signal_only_waits_as_long_as_the_site_allows(
    type_: Type, inside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.jobs = (
        QueuedJob(101, JobState.RUNNING, user="ada", comment="mirage:serve:1:safe.deer", start_s=5),
        QueuedJob(102, JobState.RUNNING, user="ada", comment=OURS, start_s=9),
    )
    now = [5.0]
    monkeypatch.setattr("mirage.real_time.real_s", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "mirage").mkdir()
    (tmp_path / "mirage" / "site.toml").write_text('most_overlap = "3m"\n')
    _, error = type_("link", "takeover", "--signal", "none", "--max-overlap", "4m", status=1)
    assert "--max-overlap counts as 00:03:00, the longest overlap that this site allows (site file " in error
    assert "job 101 still runs after 3 min (--max-overlap): this job must not train" in error
    assert inside.calls == [("update", 102, {"Comment": f"{OURS} ready@{NOW_S}"})]


def test_takeover_outside_of_a_job_is_refused_unless_nothing_is_to_be_waited_for(
    type_: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "this is not a job: SLURM_JOB_ID is not set" in type_("link", "takeover", status=1)[1]
    (tmp_path / "step_9").touch()
    words = ("link", "takeover", "--no-wait", "--progress-file", f"{tmp_path}/step_*")
    assert type_(*words) == (f"{tmp_path}/step_9\n", "")
    assert type_(*words[:3]) == (
        "",
        "mirage: prints no checkpoint: neither --progress-file nor MIRAGE_PROGRESS_FILE names one\n",
    )
    (tmp_path / "progress").touch()
    monkeypatch.setenv("MIRAGE_PROGRESS_FILE", str(tmp_path / "progress"))
    for given in (words[:3], (*words[:3], "--progress-file", str(tmp_path / "progress"))):
        assert type_(*given) == ("", "")
    monkeypatch.setenv("MIRAGE_CHAIN", "serve-1")
    assert "--no-wait is not for a job of a chain, and this one belongs to serve-1" in type_(*words, status=2)[1]


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Reading]]:
    """Readings of the server, the last one repeatedly, on a clock that only sleeps move."""
    readings: list[Reading] = []
    now = [5.0]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    monkeypatch.setattr("mirage.agent.drain.read_requests", lambda *_: readings.pop(0) if readings[1:] else readings[0])
    monkeypatch.setattr("mirage.real_time.real_s", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    yield readings
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_drain_waits_for_zero_requests_and_needs_no_chain(type_: Type, metrics: list[Reading]) -> None:
    metrics += [Reading(3, 1.0), Reading(1, 3.0), Reading(0, 4.0)]
    assert type_("link", "drain") == ("", "mirage: no request in flight for 00:00:05; drained in 00:00:06\n")
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN, "a second warning does not end the wait"


def test_drain_fails_at_its_longest_time(type_: Type, metrics: list[Reading], monkeypatch: pytest.MonkeyPatch) -> None:
    metrics += [Reading(3, 1.0)]
    assert type_("link", "drain", "--at-most", "1m", status=1)[1] == (
        "mirage: error: 3 requests still in flight after 00:01:00; give a longer --at-most, or end the server now\n"
    )
    monkeypatch.setattr("mirage.agent.drain.read_requests", lambda *_: Path("/dev/null/metrics").read_text())
    unknown = type_("link", "drain", "--at-most", "1m", status=1)[1]
    assert "it is not known after 00:01:00 whether a request is in flight: [Errno 20]" in unknown
    assert "is no URL" in type_("link", "drain", "--metrics", "here", status=1)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gauge", ""), "--gauge is empty; name a metric, or leave the option out"),
        (("--for", "10m", "--at-most", "5s"), "--at-most is shorter than --for, so the server could never be drained"),
    ],
)
def test_drain_refuses_what_cannot_succeed(type_: Type, words: tuple[str, ...], message: str) -> None:
    assert message in type_("link", "drain", *words, status=2)[1]


def test_the_help_of_done_promises_to_cancel_no_earlier_job(type_: Type) -> None:
    text = " ".join(type_("link", "done", "--help")[0].split())
    assert "The later jobs of the chain are cancelled at once. The agent cancels an earlier job that still runs" in text
    assert "this job continues to its own end" in text
