"""Pairs: matching of jobs, the clock of the other side, and the counts of jobs left out."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, JobState
from mirage.trace.table import JobTable
from tests.support.made_up_histories import MONDAY_S, history


def test_jobs_meet_by_id_whatever_their_order() -> None:
    recorded = history([0, 1, 2], [1, 2, 3])
    simulated = history([2, 0, 1], [30, 10, 20], job_id=["2", "0", "1"])
    pair = PairedJobs.of(recorded, simulated)
    assert pair.jobs.job_id.tolist() == ["0", "1", "2"]
    assert (pair.jobs.wait_s // HOUR_S).tolist() == [1, 2, 3]
    assert (pair.wait_s // HOUR_S).tolist() == [10, 20, 30]


def test_every_job_is_counted_once() -> None:
    recorded = history([0, 1, 2, 3, 4], [1, 1, -1, 1, 1], job_id=["a", "b", "c", "d", "e"])
    simulated = history([0, 2, 3, 4.5, 9], [1, 1, -1, 1, 1], job_id=["a", "c", "d", "e", "z"])
    counts = PairedJobs.of(recorded, simulated).counts
    assert asdict(counts) == {
        "recorded": 5, "simulated": 5, "only_recorded": 1, "only_simulated": 1, "recorded_wait_unknown": 1,
        "simulated_wait_unknown": 1, "compared": 2, "submitted_apart": 1,
    }  # fmt: skip
    assert counts.recorded == (
        counts.compared + counts.only_recorded + counts.recorded_wait_unknown + counts.simulated_wait_unknown
    )


def test_a_start_before_the_submission_is_no_wait() -> None:
    recorded = history([5, 6], [1, 1])
    recorded = recorded.with_columns(start_s=np.array([MONDAY_S, recorded.start_s[1]]))
    pair = PairedJobs.of(recorded, history([5, 6], [2, 2]))
    assert (pair.counts.recorded_wait_unknown, pair.jobs.job_id.tolist()) == (1, ["1"])


def test_only_the_span_counts_on_either_side() -> None:
    recorded = history([0, 24, 48, 72], [1, 2, 3, 4])
    simulated = history([0, 24, 48, 72, 30], [1, 2, 3, 4, 5])
    pair = PairedJobs.of(recorded, simulated, MONDAY_S + DAY_S, MONDAY_S + 3 * DAY_S)
    assert pair.jobs.job_id.tolist() == ["1", "2"]
    assert (pair.counts.recorded, pair.counts.simulated, pair.counts.only_simulated) == (2, 3, 1)
    assert PairedJobs.of(recorded, simulated, until_s=MONDAY_S + 1).jobs.job_id.tolist() == ["0"]
    assert PairedJobs.of(recorded, simulated, MONDAY_S + 3 * DAY_S).jobs.job_id.tolist() == ["3"]


def test_rows_of_one_id_meet_in_the_order_of_their_submissions() -> None:
    recorded = history([0, 10, 5], [1, 3, 2], job_id=["7", "7", "7"])
    simulated = history([10, 0], [30, 10], job_id=["7", "7"])
    pair = PairedJobs.of(recorded, simulated)
    assert (pair.jobs.wait_s // HOUR_S).tolist() == [1, 2]
    assert (pair.wait_s // HOUR_S).tolist() == [10, 30]
    assert pair.counts.only_recorded == 1


def test_a_submission_that_never_started_is_not_taken_for_a_later_one_of_its_id() -> None:
    recorded = history([0, 1, 2], [-1, 5, 6], job_id=["a", "a", "b"])
    recorded = recorded.with_columns(state=np.array([JobState.CANCELLED, JobState.COMPLETED, JobState.COMPLETED]))
    pair = PairedJobs.of(recorded, history([1, 2], [7, 8], job_id=["a", "b"]))
    assert (pair.jobs.job_id.tolist(), (pair.jobs.wait_s // HOUR_S).tolist()) == (["a", "b"], [5, 6])


def test_a_clock_of_its_own_is_reported_and_undone() -> None:
    recorded = history([0, 1, 2], [1, 1, 1])
    simulated = history([0, 1, 2], [2, 2, -1])
    moved = simulated.with_columns(
        submit_s=simulated.submit_s - MONDAY_S,
        start_s=np.where(simulated.start_s == MISSING, MISSING, simulated.start_s - MONDAY_S),
        end_s=np.where(simulated.end_s == MISSING, MISSING, simulated.end_s - MONDAY_S),
    )
    pair = PairedJobs.of(recorded, moved)
    assert pair.shift_s == MONDAY_S
    assert pair.start_s.tolist() == (recorded.start_s[:2] + HOUR_S).tolist()
    assert pair.end_s.tolist() == (recorded.end_s[:2] + HOUR_S).tolist()
    assert pair.counts.submitted_apart == 0
    running = moved.with_columns(end_s=np.full(3, MISSING))
    assert PairedJobs.of(recorded, running).end_s.tolist() == [MISSING, MISSING]
    assert PairedJobs.of(recorded, simulated).shift_s == 0


def test_later_submissions_of_users_are_no_other_clock() -> None:
    recorded = history([0, 10, 20, 30, 40], [1, 1, 1, 1, 1])
    simulated = history([0, 11, 21, 33, 44], [1, 1, 1, 1, 1])
    pair = PairedJobs.of(recorded, simulated)
    assert (pair.shift_s, pair.counts.submitted_apart) == (0, 4)
    assert (pair.wait_s // HOUR_S).tolist() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("simulated", "span", "message"),
    [
        (history([0], [1], job_id=["x9"]), None, r"2 jobs with ids as 0, 1 are recorded, 1 job with ids as x9 sim"),
        (history([], []), None, "0 jobs simulated; simulate the same trace"),
        (history([0, 1], [-1, -1]), None, "none of 2 jobs was started in the simulation; simulate to the end"),
        (history([0, 1], [1, 1]), MONDAY_S + DAY_S, "was submitted in the span; choose another --from"),
    ],
)
def test_nothing_to_compare_is_an_error_with_its_reason(simulated, span, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PairedJobs.of(history([0, 1], [1, 1]), simulated, span)


def refusal(recorded: JobTable, simulated: JobTable, from_s: int | None = None) -> str:
    with pytest.raises(ConfigurationError) as raised:
        PairedJobs.of(recorded, simulated, from_s)
    return str(raised.value)


def test_a_workload_without_starts_is_no_record() -> None:
    assert refusal(history([0, 1], [-1, -1]), history([0, 1], [1, 1])) == (
        "none of 2 jobs has a recorded submission and start, so there is nothing to compare with; "
        "is the trace a workload without starts?"
    )


def test_a_refusal_names_what_is_there_and_what_to_do() -> None:
    here = history(range(4), [1] * 4, job_id=["a" * 30, "b", "c", "d"])
    assert refusal(here, history([0, 1], [1, 1])) == (
        f"no job is both recorded and simulated: 4 jobs with ids as {'a' * 19}…, b, c are recorded, 2 jobs with ids as "
        "0, 1 simulated; simulate the same trace that is compared, with its job ids unchanged"
    )
    assert refusal(history([0, 1, 2], [1, 1, -1]), history([0, 1, 2], [-1, -1, 1])) == (
        "none of 2 jobs was started in the simulation; simulate to the end of the trace"
    )
    assert refusal(history([0], [1]), history([0], [1]), MONDAY_S + DAY_S) == (
        "no job that is both recorded and simulated was submitted in the span; choose another --from and --until"
    )
