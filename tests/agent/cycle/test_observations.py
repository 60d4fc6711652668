"""Changes of a link from the queue and from accounting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.agent.cycle.observations import (
    ALIVE,
    Change,
    change_from_accounting,
    change_from_queue,
    held_by_slurm,
    vanished,
)
from mirage.agent.model import EventRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import AccountedJob, QueuedJob

MARK = "mirage:x:2:safe.deer"
HELD = Link(1, 2, LinkState.HELD, job=7, attempted_s=90, submitted_s=90, limit_s=600)
RUNNING = Link(
    1, 2, LinkState.RUNNING, job=7, attempted_s=90, submitted_s=90, limit_s=600, released_s=90, started_s=100
)


def job(state: JobState, **known) -> QueuedJob:
    return QueuedJob(7, state, **{"limit_s": 600, "submit_s": 90, "comment": MARK, **known})


def test_a_submission_with_a_lost_answer_is_found() -> None:
    planned = Link(1, 2, attempted_s=90)
    change = change_from_queue(planned, job(JobState.PENDING, dependency="afterany:6(unfulfilled)"), 100)
    assert change.columns == {"job": 7, "submitted_s": 90, "limit_s": 600, "state": LinkState.HELD}
    assert [event.kind for event in change.events] == ["found"]


def test_held_then_free_then_running_then_over() -> None:
    free = change_from_queue(HELD, job(JobState.PENDING, eligible_s=95), 100).columns
    assert free == {"state": LinkState.QUEUED, "released_s": 95}
    change = change_from_queue(HELD, job(JobState.RUNNING, start_s=120, eligible_s=110), 130)
    assert change.columns == {"state": LinkState.RUNNING, "started_s": 120, "released_s": 110}
    assert [event.kind for event in change.events] == ["started"]
    over = change_from_queue(RUNNING, job(JobState.TIMEOUT, start_s=100, end_s=712), 720)
    assert over.columns["ended_s"] == 712
    assert over.columns["outcome"] is JobState.TIMEOUT
    assert [event.kind for event in over.events] == ["ended"]


@pytest.mark.parametrize("completing", [True, False])
def test_a_link_that_started_before_it_could_be_cancelled_was_not(completing: bool) -> None:
    withdrawn = replace(HELD, cancelled_s=110)
    change = change_from_queue(withdrawn, job(JobState.RUNNING, start_s=109, completing=completing), 130)
    assert change.columns.get("cancelled_s", 110) == (110 if completing else MISSING)


def test_nothing_new_is_no_change() -> None:
    assert not change_from_queue(RUNNING, job(JobState.RUNNING, start_s=100), 300)
    assert not change_from_queue(HELD, job(JobState.PENDING, dependency="afterany:6(unfulfilled)"), 300)


def test_a_link_requeued_into_the_queue_runs_no_more() -> None:
    change = change_from_queue(RUNNING, job(JobState.PENDING, reason="BeginTime"), 300)
    assert change.columns["state"] is LinkState.QUEUED
    assert change.columns["started_s"] == MISSING
    assert reported(change) == [
        ("requeued", "job 7: BeginTime"), ("waits", "it may not start before its begin time (BeginTime)"),
    ]  # fmt: skip


def test_a_word_is_reported_though_the_job_is_back_in_the_queue_for_an_unusual_reason() -> None:
    change = change_from_queue(RUNNING, job(JobState.PENDING, reason="BeginTime", comment=f"{MARK} done"), 300)
    assert change.columns["finished"] is True
    assert [kind for kind, _ in reported(change)] == ["requeued", "done", "waits"]


def test_the_job_s_own_words_are_heard() -> None:
    change = change_from_queue(RUNNING, job(JobState.RUNNING, start_s=100, comment=f"{MARK} ready@250 done"), 300)
    assert change.columns == {"finished": True, "ready_s": 250}
    assert [event.kind for event in change.events] == ["ready", "done"]


def test_a_state_unknown_to_us_changes_nothing() -> None:
    assert not change_from_queue(HELD, job(JobState.UNKNOWN, dependency="x"), 300)


def test_accounting_speaks_of_the_dead_only() -> None:
    assert not change_from_accounting(RUNNING, AccountedJob(7, JobState.RUNNING, start_s=100), 300)
    change = change_from_accounting(RUNNING, AccountedJob(7, JobState.FAILED, start_s=100, end_s=250, exit_code=3), 300)
    assert change.columns["ended_s"] == 250
    assert change.columns["exit_code"] == 3


def test_a_job_cancelled_while_it_waited_never_started() -> None:
    change = change_from_queue(HELD, job(JobState.CANCELLED, start_s=150, end_s=150), 300)
    assert "started_s" not in change.columns


def test_a_vanished_link_ended_at_the_limit_or_now() -> None:
    assert vanished(RUNNING, 5_000).columns["ended_s"] == 700
    assert vanished(RUNNING, 400).columns["ended_s"] == 400


@given(
    st.sampled_from([HELD, RUNNING, Link(1, 2, attempted_s=90)]),
    st.sampled_from(list(JobState)),
    st.integers(-1, 10**6),
    st.integers(-1, 10**6),
    st.integers(-1, 10**6),
)
def test_observed_twice_changes_once(link: Link, state: JobState, start_s: int, end_s: int, eligible_s: int) -> None:

    observed = job(state, start_s=start_s, end_s=end_s, eligible_s=eligible_s)
    once = replace(link, **change_from_queue(link, observed, 1_000).columns)
    again = change_from_queue(once, observed, 1_000)
    assert once.state is LinkState.ENDED or not again.events


# -- column by column ---------------------------------------------------------------------------------------


def accounted(state: JobState, **known) -> AccountedJob:
    return AccountedJob(7, state, **{"submit_s": 90, **known})


def reported(change: Change) -> list[tuple[str, str]]:
    assert {(event.chain, event.link) for event in change.events} <= {(1, 2)}
    return [(event.kind, event.detail) for event in change.events]


def test_the_limit_is_followed_when_it_changes_only() -> None:
    pending = {"dependency": "afterany:6(unfulfilled)"}
    assert change_from_queue(HELD, job(JobState.PENDING, limit_s=900, **pending), 100).columns == {"limit_s": 900}
    assert not change_from_queue(HELD, job(JobState.PENDING, limit_s=MISSING, **pending), 100)


def test_the_nodes_of_a_link_are_those_of_its_last_run_also_where_it_was_never_observed_running() -> None:
    begun = change_from_queue(HELD, job(JobState.RUNNING, start_s=120, eligible_s=110, nodelist="n[1-2]"), 130)
    assert begun.columns["nodelist"] == "n[1-2]"
    known = replace(RUNNING, nodelist="n1")
    assert "nodelist" not in change_from_queue(known, job(JobState.RUNNING, start_s=100, nodelist="n1"), 130).columns
    again = change_from_queue(known, job(JobState.RUNNING, start_s=150, eligible_s=140, nodelist="n2"), 160)
    assert again.columns["nodelist"] == "n2"
    assert "nodelist" not in change_from_queue(known, job(JobState.PENDING, nodelist=""), 160).columns
    failed = job(JobState.FAILED, start_s=120, end_s=121, nodelist="n3")
    assert change_from_queue(HELD, failed, 130).columns["nodelist"] == "n3"
    withdrawn = job(JobState.CANCELLED, start_s=121, end_s=121, nodelist="n3")
    assert "nodelist" not in change_from_queue(HELD, withdrawn, 130).columns


def test_a_job_found_by_its_tag_without_a_time_was_submitted_now() -> None:
    planned = Link(1, 2, attempted_s=90)
    change = change_from_queue(planned, job(JobState.PENDING, submit_s=MISSING, dependency="x", limit_s=MISSING), 100)
    assert change.columns == {"job": 7, "submitted_s": 100, "state": LinkState.HELD}


def test_a_job_that_replaces_another_is_not_found_anew() -> None:
    change = change_from_queue(replace(HELD, job=6), job(JobState.PENDING, dependency="x"), 100)
    assert (change.columns, change.events) == ({"job": 7, "submitted_s": 90}, ())


@pytest.mark.parametrize(
    ("comment", "columns", "kinds"),
    [
        (MARK, {}, []),
        (f"{MARK} ready@250", {"ready_s": 250}, ["ready"]),
        (f"{MARK} ready@90", {"ready_s": 100}, ["ready"]),  # the clock of the node is behind
        (f"{MARK} ready@69", {}, []),  # said in a run before this one
        (f"{MARK} ready@999", {"ready_s": 300}, ["ready"]),  # the clock of the node is ahead
        (f"{MARK} done", {"finished": True}, ["done"]),
        ("ready@250 done", {}, []),
    ],
)
def test_each_word_is_heard_for_itself(comment: str, columns: dict[str, object], kinds: list[str]) -> None:
    change = change_from_queue(RUNNING, job(JobState.RUNNING, start_s=100, comment=comment), 300)
    assert (change.columns, [kind for kind, _ in reported(change)]) == (columns, kinds)


def test_words_already_heard_are_not_heard_again() -> None:
    link = replace(RUNNING, finished=True, ready_s=250)
    assert not change_from_queue(link, job(JobState.RUNNING, start_s=100, comment=f"{MARK} ready@250 done"), 300)


@pytest.mark.parametrize(("eligible_s", "released_s"), [(95, 95), (MISSING, 100), (0, 100)])
def test_free_from_when_slurm_reports_or_from_now(eligible_s: int, released_s: int) -> None:
    columns = change_from_queue(HELD, job(JobState.PENDING, eligible_s=eligible_s), 100).columns
    assert columns == {"state": LinkState.QUEUED, "released_s": released_s}
    again = replace(HELD, state=LinkState.QUEUED, released_s=40)
    assert not change_from_queue(again, job(JobState.PENDING, eligible_s=eligible_s), 100)


@pytest.mark.parametrize(("eligible_s", "released_s"), [(3_700, 3_700), (MISSING, 100)])
def test_a_link_with_a_begin_time_of_its_user_competes_from_then_on(eligible_s: int, released_s: int) -> None:
    first = Link(1, 1, LinkState.QUEUED, job=7, attempted_s=90, submitted_s=90, released_s=90, limit_s=600)
    waiting = job(JobState.PENDING, eligible_s=eligible_s, reason="BeginTime")
    change = change_from_queue(first, waiting, 100)
    assert change.columns == {"released_s": released_s, "reason": "BeginTime"}
    postponed = replace(first, begins_s=3_700)
    assert change_from_queue(postponed, waiting, 100).columns == {}


def test_a_link_requeued_forgets_that_it_ran_and_retains_since_when_it_waits() -> None:
    link = replace(RUNNING, ready_s=150, signalled_s=160, earlier=((10, 20, 80),))
    change = change_from_queue(
        link, job(JobState.PENDING, dependency="afterany:6", reason="Dependency", submit_s=200), 300
    )
    assert change.columns == {
        "state": LinkState.HELD, "started_s": MISSING, "ready_s": MISSING, "signalled_s": MISSING,
        "earlier": ((10, 20, 80), (100, 150, 200)),
    }  # fmt: skip
    assert reported(change) == [("requeued", "job 7: Dependency")]
    assert {event.time_s for event in change.events} == {300}


BEFORE = replace(RUNNING, ready_s=150, signalled_s=400)
"""A link that runs since second 100, and was seen to be ready."""


@pytest.mark.parametrize("submit_s", [90, 500])
def test_a_link_requeued_between_two_polls_begins_anew_and_retains_its_earlier_run(submit_s: int) -> None:
    observed = job(JobState.RUNNING, start_s=620, submit_s=submit_s, comment=f"{MARK} ready@150")
    change = change_from_queue(BEFORE, observed, 630)
    left_s = 500 if submit_s == 500 else 100
    assert change.columns == {
        "started_s": 620, "ready_s": MISSING, "signalled_s": MISSING, "earlier": ((100, 150, left_s),),
    }  # fmt: skip
    assert [kind for kind, _ in reported(change)] == ["requeued", "started"]
    again = replace(BEFORE, **change.columns)
    assert not change_from_queue(again, observed, 690), "the word of the run before is not heard again"
    change = change_from_queue(again, replace(observed, comment=f"{MARK} ready@680"), 690)
    assert (change.columns, reported(change)) == ({"ready_s": 680}, [("ready", "job 7")])


def test_a_requeued_job_that_still_leaves_its_nodes_has_not_started_again() -> None:
    """Slurm reports the time of the poll as its start meanwhile."""
    link = BEFORE
    for start_s in (620, 635, 650):
        leaving = job(JobState.RUNNING, start_s=start_s, submit_s=610, completing=True)
        assert change_from_queue(link, leaving, start_s) == Change()
    change = change_from_queue(link, job(JobState.PENDING, submit_s=610), 665)
    assert [kind for kind, _ in reported(change)] == ["requeued"]
    assert change.columns["earlier"] == ((100, 150, 610),)


def test_a_link_requeued_and_ready_between_two_polls_is_ready() -> None:
    observed = job(JobState.RUNNING, start_s=620, submit_s=500, comment=f"{MARK} ready@650")
    change = change_from_queue(BEFORE, observed, 700)
    assert (change.columns["ready_s"], change.columns["earlier"]) == (650, ((100, 150, 500),))
    assert [kind for kind, _ in reported(change)] == ["requeued", "started", "ready"]


@pytest.mark.parametrize("start_s", [98, 102])
def test_a_start_reported_a_second_otherwise_is_no_requeue(start_s: int) -> None:
    assert "earlier" not in change_from_queue(BEFORE, job(JobState.RUNNING, start_s=start_s), 300).columns


def test_why_a_link_waits_is_stored_while_it_waits() -> None:
    waits = replace(HELD, state=LinkState.QUEUED, released_s=95)
    assert change_from_queue(waits, job(JobState.PENDING, reason="Priority"), 100).columns == {"reason": "Priority"}
    waits = replace(waits, reason="Priority")
    assert not change_from_queue(waits, job(JobState.PENDING, reason="Priority"), 100)
    assert change_from_queue(waits, job(JobState.RUNNING, start_s=120), 130).columns["reason"] == ""
    held = change_from_queue(HELD, job(JobState.PENDING, dependency="afterany:6", reason="Dependency"), 100)
    assert not held, "that it waits for its predecessor is the normal case"


@pytest.mark.parametrize(
    ("start_s", "eligible_s", "started_s", "released_s"),
    [(120, 110, 120, 110), (120, 125, 120, 120), (120, 0, 120, 120), (120, MISSING, 120, 120), (MISSING, 1, 130, 1)],
)
def test_a_start_by_the_queue(start_s: int, eligible_s: int, started_s: int, released_s: int) -> None:
    change = change_from_queue(HELD, job(JobState.RUNNING, start_s=start_s, eligible_s=eligible_s), 130)
    assert change.columns == {"state": LinkState.RUNNING, "started_s": started_s, "released_s": released_s}
    assert reported(change) == [("started", "job 7")]


@pytest.mark.parametrize(
    ("state", "end_s", "limit_ends_s"),
    [
        (JobState.RUNNING, 700, 700), (JobState.RUNNING, 702, 700), (JobState.RUNNING, MISSING, 700),
        (JobState.SUSPENDED, 700, UNLIMITED_S), (JobState.RUNNING, 761, 761),
    ],
)  # fmt: skip
def test_a_suspension_moves_the_end_of_the_limit(state: JobState, end_s: int, limit_ends_s: int) -> None:
    link = replace(RUNNING, limit_s=600, ends_s=UNLIMITED_S)
    change = change_from_queue(link, job(state, start_s=100, end_s=end_s, limit_s=600), 300)
    assert replace(link, **change.columns).limit_ends_s == limit_ends_s


@pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.REQUEUED])
def test_states_a_job_may_run_on_from_count_as_running(state: JobState) -> None:
    assert change_from_queue(HELD, job(state, start_s=120), 130).columns["state"] is LinkState.RUNNING


def test_a_state_unknown_to_us_with_a_start_runs() -> None:
    assert change_from_queue(HELD, job(JobState.UNKNOWN, start_s=120), 130).columns["state"] is LinkState.RUNNING


def test_an_end_by_the_queue() -> None:
    change = change_from_queue(
        RUNNING, job(JobState.FAILED, start_s=100, end_s=250, exit_code=3, reason="NonZero"), 300
    )
    assert change.columns == {
        "state": LinkState.ENDED, "ended_s": 250, "outcome": JobState.FAILED, "exit_code": 3, "started_s": 100,
    }  # fmt: skip
    assert reported(change) == [("ended", "job 7: NonZero, FAILED 3")]


def test_an_end_without_a_time_is_now_and_without_a_code_reports_none() -> None:
    change = change_from_queue(RUNNING, job(JobState.CANCELLED, start_s=MISSING), 300)
    assert change.columns == {
        "state": LinkState.ENDED, "ended_s": 300, "outcome": JobState.CANCELLED, "exit_code": 0,
    }  # fmt: skip
    assert reported(change) == [("ended", "job 7, CANCELLED")]


@pytest.mark.parametrize(
    ("link", "start_s", "started_s"),
    [
        (HELD, 150, None),  # as Slurm writes it for a job cancelled while it waited
        (HELD, 149, 149),
        (RUNNING, 150, 150),
        (RUNNING, MISSING, None),
    ],
)
def test_whether_a_job_that_is_over_ran(link: Link, start_s: int, started_s: int | None) -> None:
    columns = change_from_queue(link, job(JobState.CANCELLED, start_s=start_s, end_s=150), 300).columns
    assert columns.get("started_s") == started_s


@pytest.mark.parametrize(("eligible_s", "released_s"), [(95, 95), (101, 100), (0, 100), (MISSING, 100), (1, 1)])
def test_an_end_without_an_observed_begin(eligible_s: int, released_s: int) -> None:
    change = change_from_queue(HELD, job(JobState.COMPLETED, start_s=100, end_s=150, eligible_s=eligible_s), 300)
    assert (change.columns["started_s"], change.columns["released_s"]) == (100, released_s)
    assert reported(change) == [("ended", "job 7, COMPLETED")]


def test_an_end_by_accounting() -> None:
    known = accounted(JobState.TIMEOUT, start_s=100, end_s=700, limit_s=600, comment=f"{MARK} done")
    change = change_from_accounting(replace(RUNNING, limit_s=500), known, 900)
    assert change.columns == {
        "finished": True, "limit_s": 600, "state": LinkState.ENDED, "ended_s": 700, "outcome": JobState.TIMEOUT,
        "exit_code": 0, "started_s": 100,
    }  # fmt: skip
    assert reported(change) == [("ended", "job 7, by accounting, TIMEOUT"), ("done", "job 7, by accounting, TIMEOUT")]


def test_accounting_adopts_a_job_with_a_lost_answer() -> None:
    known = accounted(JobState.FAILED, start_s=100, end_s=120, exit_code=1, comment=f"{MARK} ready@110")
    change = change_from_accounting(Link(1, 2, attempted_s=80), known, 900)
    assert change.columns == {
        "job": 7, "submitted_s": 90, "state": LinkState.ENDED, "ended_s": 120, "outcome": JobState.FAILED,
        "exit_code": 1, "started_s": 100, "released_s": 100, "ready_s": 110,
    }  # fmt: skip
    assert [kind for kind, _ in reported(change)] == ["found", "ended", "ready"]
    assert {detail for _, detail in reported(change)} == {"job 7, by accounting, FAILED 1"}


@pytest.mark.parametrize("state", sorted(ALIVE))
def test_accounting_of_a_living_job_reports_nothing(state: JobState) -> None:
    assert change_from_accounting(RUNNING, accounted(state, start_s=100), 300) == Change()


@pytest.mark.parametrize(
    ("link", "now_s", "ended_s", "outcome"),
    [
        (RUNNING, 700, 700, JobState.TIMEOUT),
        (RUNNING, 699, 699, JobState.UNKNOWN),
        (RUNNING, 5_000, 700, JobState.TIMEOUT),
        (HELD, 5_000, 5_000, JobState.UNKNOWN),
        (replace(RUNNING, limit_s=MISSING), 5_000, 5_000, JobState.UNKNOWN),
    ],
)
def test_how_a_link_vanished(link: Link, now_s: int, ended_s: int, outcome: JobState) -> None:
    change = vanished(link, now_s)
    assert change.columns == {"state": LinkState.ENDED, "ended_s": ended_s, "outcome": outcome}
    assert change.events == (EventRecord(1, 2, now_s, "vanished", "job 7 is not in the queue any more"),)


@pytest.mark.parametrize(
    ("state", "reason", "held"),
    [
        (JobState.PENDING, "launch failed requeued held", True),
        (JobState.PENDING, "launch_failed_requeued_held", True),
        (JobState.PENDING, "JobHoldMaxRequeue", True),
        (JobState.PENDING, "JobHeldUser", False),
        (JobState.PENDING, "JobHeldAdmin", False),
        (JobState.PENDING, "", False),
        (JobState.RUNNING, "launch failed requeued held", False),
    ],
)
def test_jobs_held_by_slurm_or_a_person(state: JobState, reason: str, held: bool) -> None:
    assert held_by_slurm(job(state, reason=reason)) is held


@pytest.mark.parametrize(
    ("change", "something"),
    [
        (Change(), False),
        (Change({"job": 7}), True),
        (Change(events=(EventRecord(1, 2, 0, "ended"),)), True),
    ],
)
def test_a_change_is_columns_or_events(change: Change, something: bool) -> None:
    assert bool(change) is something


def test_a_job_found_when_it_is_over_is_adopted_with_its_end() -> None:
    change = change_from_queue(
        Link(1, 2, attempted_s=90), job(JobState.FAILED, start_s=100, end_s=130, exit_code=2), 140
    )
    assert change.columns == {
        "job": 7, "submitted_s": 90, "limit_s": 600, "state": LinkState.ENDED, "ended_s": 130, "exit_code": 2,
        "outcome": JobState.FAILED, "started_s": 100, "released_s": 100,
    }  # fmt: skip
