"""What the queue and accounting say of a link."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirage.agent.cycle.observations import seen_in_accounting, seen_in_queue, vanished
from mirage.agent.model import Link, LinkState
from mirage.job_state import MISSING, JobState
from mirage.slurm.values import AccountedJob, QueuedJob

HELD = Link(1, 2, LinkState.HELD, job=7, attempted_s=90, submitted_s=90, limit_s=600)
RUNNING = Link(
    1, 2, LinkState.RUNNING, job=7, attempted_s=90, submitted_s=90, limit_s=600, released_s=90, started_s=100
)


def job(state: JobState, **known) -> QueuedJob:
    return QueuedJob(7, state, **{"limit_s": 600, "submit_s": 90, "comment": "mirage:x:2", **known})


def test_a_submission_whose_answer_was_lost_is_found() -> None:
    planned = Link(1, 2, attempted_s=90)
    change = seen_in_queue(planned, job(JobState.PENDING, dependency="afterany:6(unfulfilled)"), 100)
    assert change.columns == {"job": 7, "submitted_s": 90, "limit_s": 600, "state": LinkState.HELD}
    assert [event.kind for event in change.events] == ["found"]


def test_held_then_free_then_running_then_over() -> None:
    free = seen_in_queue(HELD, job(JobState.PENDING, eligible_s=95), 100).columns
    assert free == {"state": LinkState.QUEUED, "released_s": 95}
    change = seen_in_queue(HELD, job(JobState.RUNNING, start_s=120, eligible_s=110), 130)
    assert change.columns == {"state": LinkState.RUNNING, "started_s": 120, "released_s": 110}
    assert [event.kind for event in change.events] == ["started"]
    over = seen_in_queue(RUNNING, job(JobState.TIMEOUT, start_s=100, end_s=712), 720)
    assert over.columns["ended_s"] == 712
    assert over.columns["outcome"] is JobState.TIMEOUT
    assert [event.kind for event in over.events] == ["ended"]


def test_nothing_new_is_no_change() -> None:
    assert not seen_in_queue(RUNNING, job(JobState.RUNNING, start_s=100), 300)
    assert not seen_in_queue(HELD, job(JobState.PENDING, dependency="afterany:6(unfulfilled)"), 300)


def test_a_link_put_back_into_the_queue_runs_no_more() -> None:
    change = seen_in_queue(RUNNING, job(JobState.PENDING, reason="BeginTime"), 300)
    assert change.columns["state"] is LinkState.QUEUED
    assert change.columns["started_s"] == MISSING
    assert [event.kind for event in change.events] == ["requeued"]


def test_the_job_s_own_words_are_heard() -> None:
    change = seen_in_queue(RUNNING, job(JobState.RUNNING, start_s=100, comment="mirage:x:2 ready done"), 300)
    assert change.columns == {"finished": True, "ready_s": 300}
    assert [event.kind for event in change.events] == ["ready", "done"]


def test_a_state_nobody_heard_of_changes_nothing() -> None:
    assert not seen_in_queue(HELD, job(JobState.UNKNOWN, dependency="x"), 300)


def test_accounting_speaks_of_the_dead_only() -> None:
    assert not seen_in_accounting(RUNNING, AccountedJob(7, JobState.RUNNING, start_s=100), 300)
    change = seen_in_accounting(RUNNING, AccountedJob(7, JobState.FAILED, start_s=100, end_s=250, exit_code=3), 300)
    assert change.columns["ended_s"] == 250
    assert change.columns["exit_code"] == 3


def test_a_job_cancelled_while_it_waited_never_started() -> None:
    change = seen_in_queue(HELD, job(JobState.CANCELLED, start_s=150, end_s=150), 300)
    assert "started_s" not in change.columns


def test_whoever_vanishes_ended_at_the_limit_or_now() -> None:
    assert vanished(RUNNING, 5_000).columns["ended_s"] == 700
    assert vanished(RUNNING, 400).columns["ended_s"] == 400


@given(
    st.sampled_from([HELD, RUNNING, Link(1, 2, attempted_s=90)]),
    st.sampled_from(list(JobState)),
    st.integers(-1, 10**6),
    st.integers(-1, 10**6),
    st.integers(-1, 10**6),
)
def test_seen_twice_changes_once(link: Link, state: JobState, start_s: int, end_s: int, eligible_s: int) -> None:

    seen = job(state, start_s=start_s, end_s=end_s, eligible_s=eligible_s)
    once = replace(link, **seen_in_queue(link, seen, 1_000).columns)
    again = seen_in_queue(once, seen, 1_000)
    assert once.state is LinkState.ENDED or not again.events
