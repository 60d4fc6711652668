"""The file of promises: stored values, outcomes, promises without an outcome."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import StoreError
from mirage.job_state import MISSING, JobState
from mirage.predict.start.blended_ranges import QuantileBlend
from mirage.predict.start.promise import FORGOTTEN_S, OPEN, SETTLED, SUBMITTED_WITHIN_S, VOID, Promise
from mirage.predict.start.promise_file import Promises
from mirage.predict.start.quantile_levels import HORIZON_S, LEVELS
from mirage.predict.start.widened_ranges import PLACES
from mirage.slurm.records import AccountedJob, QueuedJob

NOW = 1_790_000_000
REPORTED_S = (0.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0)
WAITS = tuple(range(600, 600 + 60 * PLACES, 60))
SCRIPT = Promise("c1", NOW, MISSING, MISSING, "ada", "train", "gpu", 2, 3600, WAITS, REPORTED_S, 240.0)
OF_JOB = replace(SCRIPT, job=7, submit_s=NOW - 500)


def job(state: JobState = JobState.RUNNING, **changed: object) -> QueuedJob:
    values = {"id": 7, "name": "train", "user": "ada", "partition": "gpu", "nodes": 2, "limit_s": 3600}
    return QueuedJob(state=state, **{**values, "submit_s": NOW - 500, "start_s": NOW + 400, **changed})


@pytest.fixture
def promises(tmp_path: Path) -> Promises:
    return Promises(tmp_path / "promises.db")


def only(promises: Promises) -> Promise:
    (found,) = [one for state in (OPEN, SETTLED, VOID) for _, one in promises.of("c1", state)]
    return found


def test_a_promise_comes_back_as_it_was_made(promises: Promises) -> None:
    promises.add(OF_JOB)
    assert only(promises) == OF_JOB
    assert promises.of("another", OPEN) == []
    assert stat.S_IMODE(promises.path.stat().st_mode) == 0o600


def test_the_first_word_about_a_job_counts_and_the_last_about_a_script(promises: Promises) -> None:
    promises.add(OF_JOB)
    promises.add(replace(OF_JOB, made_s=NOW + 60))
    assert only(promises).made_s == NOW
    promises.fill_in("c1", [job()], NOW + 500)
    promises.add(SCRIPT)
    promises.add(replace(SCRIPT, made_s=NOW + 60))
    assert [one.made_s for _, one in promises.of("c1", OPEN)] == [NOW + 60]


def test_a_name_that_is_no_utf_8_is_stored_as_slurm_s_commands_are_read(promises: Promises) -> None:
    for made_s in (NOW, NOW + 60):
        promises.add(replace(SCRIPT, name="a\udcffb", made_s=made_s))
    assert only(promises).name == "a\ufffdb"
    assert promises.fill_in("c1", [job(name="a\ufffdb", submit_s=NOW + 90)], NOW + 500) == 1


def test_a_job_has_waited_from_the_promise_to_its_start(promises: Promises) -> None:
    promises.add(OF_JOB)
    assert promises.fill_in("c1", [job(JobState.PENDING, start_s=NOW + 9)], NOW + 5) == 0, "Slurm's plan is no start"
    assert promises.fill_in("c1", [job()], NOW + 500) == 1
    (settled,) = promises.settled("c1")
    assert (settled.wait_s, settled.slurm_s, settled.kind) == (400.0, 240.0, "gpu 2-7 nodes")


def test_a_script_is_the_job_of_its_form_submitted_soon_after(promises: Promises) -> None:
    promises.add(SCRIPT)
    others = [
        job(id=1, submit_s=NOW - 1),
        job(id=2, submit_s=NOW + SUBMITTED_WITHIN_S + 1),
        job(id=3, submit_s=NOW + 5, nodes=3),
        job(id=4, submit_s=NOW + 5, name="other"),
        job(id=5, submit_s=NOW + 5, user="bob"),
    ]
    assert promises.fill_in("c1", others, NOW + 500) == 0
    assert promises.fill_in("c1", [*others, job(id=6, submit_s=NOW + 30, start_s=NOW + 130)], NOW + 500) == 1
    assert only(promises).wait_s == 100.0, "from its own submission"


def test_accounting_reports_it_too(promises: Promises) -> None:
    promises.add(OF_JOB)
    ended = AccountedJob(7, JobState.COMPLETED, submit_s=NOW - 500, start_s=NOW + 90, end_s=NOW + 100)
    assert promises.fill_in("c1", [ended], NOW + 500) == 1
    assert only(promises).wait_s == 90.0


@pytest.mark.parametrize(
    "row",
    [
        job(JobState.CANCELLED, start_s=NOW + 50, end_s=NOW + 50),
        AccountedJob(7, JobState.CANCELLED, submit_s=NOW - 500, end_s=NOW + 50),
    ],
)
def test_a_job_cancelled_before_its_start_has_no_outcome(promises: Promises, row: QueuedJob) -> None:
    promises.add(OF_JOB)
    assert promises.fill_in("c1", [row], NOW + 500) == 0
    assert (only(promises).state, only(promises).wait_s) == (VOID, None)


def test_another_job_of_that_number_is_not_meant(promises: Promises) -> None:
    promises.add(OF_JOB)
    assert promises.fill_in("c1", [job(submit_s=NOW + 10)], NOW + 500) == 0
    assert only(promises).state == OPEN


def test_what_was_never_submitted_or_is_forgotten_ends_without_an_outcome(promises: Promises) -> None:
    promises.add(SCRIPT)
    promises.add(OF_JOB)
    promises.fill_in("c1", [], NOW + 2 * SUBMITTED_WITHIN_S + 1)
    assert [one.job for _, one in promises.of("c1", OPEN)] == [7]
    promises.fill_in("c1", [], NOW + FORGOTTEN_S + 1)
    assert promises.of("c1", OPEN) == []


def test_outcomes_teach_how_far_ranges_must_reach(promises: Promises) -> None:
    for k in range(30):
        late = replace(SCRIPT, job=k, submit_s=NOW - 500, made_s=NOW + k)
        promises.add(late)
        promises.fill_in("c1", [job(id=k, start_s=NOW + 20_000)], NOW + 20_500)
    taught = promises.correction("c1")
    new = replace(SCRIPT, made_s=NOW + 21_000).forecast()
    assert (taught.outcomes(), taught.outcomes(new)) == (30, 30)
    assert taught.outcomes(replace(SCRIPT, waits_s=(0,) * PLACES).forecast()) == 0, "futures that agree stand apart"
    low, high = taught.quantiles_s(new, [0.1, 0.9], SCRIPT.kind)
    raw_low, raw_high = new.wait_quantiles_s((0.1, 0.9))
    assert (low, raw_low) == (0, pytest.approx(978, abs=60))
    assert high > raw_high + 3600


def test_a_job_that_still_waits_teaches_and_a_script_never_submitted_does_not(promises: Promises) -> None:
    later = replace(SCRIPT, made_s=NOW + 40_000).forecast()
    before = promises.correction("c1").quantiles_s(later, LEVELS).tolist()
    promises.add(SCRIPT)
    assert promises.correction("c1").quantiles_s(later, LEVELS).tolist() == before
    promises.add(OF_JOB)
    assert promises.correction("c1").quantiles_s(later, LEVELS)[-1] > before[-1] + 3600


def test_promises_of_an_earlier_version_are_read_as_their_quantiles(promises: Promises) -> None:
    promises.add(replace(OF_JOB, waits_s=REPORTED_S))
    promises.fill_in("c1", [job()], NOW + 500)
    (settled,) = promises.settled("c1")
    assert settled.forecast().wait_quantiles_s(LEVELS[1:-1]) == pytest.approx(REPORTED_S[1:-1], abs=60)
    assert promises.correction("c1").outcomes() == 1


def test_outcomes_of_both_parts_teach_the_blend(promises: Promises) -> None:
    parts_s = (REPORTED_S, tuple(value + 5000.0 for value in REPORTED_S))
    for k in range(60):
        of_both = replace(SCRIPT, job=k, submit_s=NOW - 500, made_s=NOW + 100 * k, parts_s=parts_s if k % 3 else ())
        promises.add(of_both)
        promises.fill_in("c1", [job(id=k, start_s=NOW + 100 * k + 5300)], NOW + 20_500)
    assert {one.parts_s for one in promises.settled("c1")} == {(), parts_s}
    blend = promises.blend("c1")
    assert blend.outcomes == 40
    blended_s = blend.quantiles_s(np.array(parts_s), NOW + 20_500)
    assert blended_s[3] == pytest.approx(0.8 * 5300 + 0.2 * 300, rel=0.05), "40 outcomes, and 10 assumed ones"
    assert promises.blend("another").outcomes == 0


def test_a_wait_beyond_the_futures_counts_as_their_length(promises: Promises) -> None:
    parts_s = (tuple(HORIZON_S + 0.0 * value for value in REPORTED_S), REPORTED_S)
    promises.add(replace(OF_JOB, parts_s=parts_s))
    promises.fill_in("c1", [job(start_s=NOW + 2 * HORIZON_S)], NOW + 2 * HORIZON_S + 60)
    taught, expected = promises.blend("c1"), QuantileBlend(LEVELS, 2)
    expected.learn(np.array(parts_s), HORIZON_S, NOW + 2 * HORIZON_S)
    assert taught.quantiles_s(np.array(parts_s), NOW).tolist() == expected.quantiles_s(np.array(parts_s), NOW).tolist()


def test_a_file_of_an_earlier_version_gets_the_column_of_parts(promises: Promises) -> None:
    promises.add(OF_JOB)
    with contextlib.closing(sqlite3.connect(promises.path)) as opened, opened:
        opened.execute("alter table promise drop column parts")
    assert only(promises) == OF_JOB
    promises.add(replace(OF_JOB, job=8, parts_s=(REPORTED_S, REPORTED_S)))
    assert [one.parts_s for _, one in promises.of("c1", OPEN)] == [(), (REPORTED_S, REPORTED_S)]


def test_a_file_that_is_no_data_base_is_refused(promises: Promises) -> None:
    promises.path.write_text("this is no data base " * 100)
    with pytest.raises(StoreError, match=r"cannot use the promises in .*; move the file away, and another is made"):
        promises.add(OF_JOB)
