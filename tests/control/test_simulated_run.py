"""A recorded run: what Slurm reported, and the same jobs in the simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.control.adviser import Adviser
from mirage.control.run_record import JobRow, RunNode, RunSettings, read_run
from mirage.control.simulated_run import _leave_s, compared, run_jobs, simulate_run
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running

OWN, LENT = RunNode("t1", 4, "gpu", 1.0, False), RunNode("i1", 4, "gpu", 1.0, True)
SETTINGS = RunSettings("fifo", 1000, 10, 5, 600, 3.0, 1000, 1000, False, False, (OWN, LENT, replace(LENT, name="i2")))


def row(number: int, first_s: int, start_s: int, end_s: int, gpus: int = 4, **changes: int) -> JobRow:
    cells = {"time_s": 2000, "submit_s": first_s, "restarts": 0, "nodes": 1, "limit_s": 300, **changes}
    return JobRow(id=number, first_s=first_s, start_s=start_s, end_s=end_s, gpus=gpus, owner=False, **cells)


def test_fifo_is_simulated_to_the_second() -> None:
    """Job 3 would fit with job 1, but waits for job 2; Slurm has lost 2 s at each start."""
    rows = [row(1, 1000, 1002, 1102, 2), row(2, 1001, 1104, 1154), row(3, 1005, 1156, 1196, 2)]
    run = simulate_run(SETTINGS, rows)
    assert run.left_out == 0
    assert (run.real.mean_wait_s, run.real.mean_jct_s) == ((2 + 103 + 151) / 3, (102 + 153 + 191) / 3)
    assert run.simulated.mean_wait_s == pytest.approx((0 + 99 + 145) / 3)
    assert run.simulated.mean_jct_s == pytest.approx((100 + 149 + 185) / 3)
    assert (run.real.makespan_s, run.simulated.makespan_s) == (196, 190)


def test_a_job_of_one_node_is_not_spread_over_two() -> None:
    """Job 3 fits on no single node until job 2 ends, and blocks job 4 until then."""
    settings = replace(SETTINGS, nodes=(OWN, replace(OWN, name="t2")))
    rows = [row(1, 1000, 1000, 1100, 3), row(2, 1000, 1000, 1060, 3), row(3, 1005, 1060, 1090, 2),
            row(4, 1006, 1060, 1070, 1)]  # fmt: skip
    assert simulate_run(settings, rows).simulated.mean_wait_s == pytest.approx((55 + 54) / 4)
    spread = simulate_run(settings, [replace(one, nodes=2) for one in rows])
    assert spread.simulated.mean_wait_s == pytest.approx(29 / 4), "with two nodes, job 3 starts at once on both"


@pytest.mark.parametrize(
    ("backfills", "limit_s", "started_s"), [(False, 100, 1103), (True, 100, 1006), (True, 295, 1103)]
)
def test_slurm_starts_a_later_job_that_delays_no_earlier_one(backfills: bool, limit_s: int, started_s: int) -> None:
    """With Aryl, job 3 waits for job 2, although a GPU is free until 1300 s."""
    rows = [
        row(1, 1000, 1000, 1100, 3),
        row(2, 1005, 1100, 1103, limit_s=60),
        row(3, 1006, 1006, 1056, 1, limit_s=limit_s),
    ]
    settings = replace(SETTINGS, scheduler="aryl", backfills=backfills, nodes=(OWN,))
    waited_s = 0 + (1100 - 1005) + (started_s - 1006)
    assert simulate_run(settings, rows).simulated.mean_wait_s == pytest.approx(waited_s / 3, abs=0.1)


@pytest.mark.parametrize(("progress", "left_s", "leave_s"), [(False, 1062, 12), (False, 1059, 9), (True, 1052, 2)])
def test_an_evicted_job_leaves_as_late_as_in_the_run(progress: bool, left_s: int, leave_s: int) -> None:
    """Job 1 was evicted at the poll of 1050 s, with a grace of 5 s."""
    first = row(1, 1000, 1000, MISSING)
    rows = [first, replace(first, start_s=MISSING, submit_s=left_s, restarts=1), row(1, 1000, 1200, 1300, restarts=1)]
    assert _leave_s(replace(SETTINGS, progress=progress), run_jobs(rows)) == leave_s
    assert _leave_s(SETTINGS, run_jobs(rows[:1])) == 5


def test_aryl_lends_at_a_poll_and_gives_back_when_a_service_comes() -> None:
    """Job 2 runs on a lent node from 1010 s, until a service needs both nodes at 1050 s."""
    service = replace(row(9, 1045, 1065, 1200, nodes=2), owner=True)
    loans = [JobRow(time_s, 0, 0, 0, 0, 0, 0, 0, 0, 0, True, lent) for time_s, lent in ((1000, ()), (1020, ("i1",)))]
    rows = [*loans, row(1, 1000, 1001, 1301), row(2, 1002, 1011, 1056), service]
    rows.append(row(2, 1002, 1302, 1355, restarts=1, submit_s=1056))
    run = simulate_run(replace(SETTINGS, scheduler="aryl"), rows)
    # after the service it is lent a node again: the real run is made up, and had only one loan
    assert (run.real.loans, run.simulated.loans, run.real.preemptions, run.simulated.preemptions) == (1, 2, 1, 1)
    # it runs from 1010 to 1050 and leaves after 6 s; of 89 s of work 49 and a restart of 3 s are left, from 1200 s on
    assert run.simulated.mean_jct_s == pytest.approx((300 + 1200 + 52 - 1002) / 2, abs=0.1)
    no_budget = simulate_run(replace(SETTINGS, scheduler="aryl", evictions_per_hour=0), rows)
    assert no_budget.simulated.preemptions == 0
    assert simulate_run(replace(SETTINGS, scheduler="aryl"), rows, from_scratch=True).simulated.preemptions == 1


def test_attempts_end_when_slurm_queues_the_job_again() -> None:
    rows = [row(1, 100, 110, MISSING), row(1, 100, MISSING, MISSING, restarts=1, submit_s=150),
            row(1, 100, 170, 190, restarts=1, submit_s=150), row(1, 900, 910, 930)]  # fmt: skip
    once, reused = run_jobs(rows)
    assert (once.attempts, once.end_s) == ({0: (110, 150), 1: (170, 190)}, 190)
    assert reused.attempts == {0: (910, 930)}


def test_the_spread_is_that_of_the_real_runs_and_jobs_without_an_end_are_left_out() -> None:
    one = simulate_run(SETTINGS, [row(1, 1000, 1000, 1100), row(2, 1001, 1100, MISSING)])
    other = simulate_run(SETTINGS, [row(1, 1000, 1020, 1120)])
    assert (one.left_out, other.left_out) == (1, 0)
    jct = next(found for found in compared([one, other]) if found["metric"] == "mean_jct_s")
    assert jct == {"metric": "mean_jct_s", "real": 110.0, "simulated": 100.0, "difference": pytest.approx(-10 / 110),
                   "spread": pytest.approx(20 / 110)}  # fmt: skip
    with pytest.raises(ConfigurationError, match="no job of this run has ended"):
        simulate_run(SETTINGS, [])


def test_an_adviser_records_what_changes(tmp_path: Path) -> None:
    cluster = ControlCluster(jobs=[running(5, "t1"), pending(6), pending(8, Comment="")], reservations=[loan("i2")])
    adviser = Adviser(cluster.slurm, POOLS, tmp_path)
    adviser.advise(NOW_S)
    adviser.advise(NOW_S + 36)
    ended = running(5, "t1", State="COMPLETED", EndTime=NOW_S + 40)
    service = running(9, "i1", Partition="inference", Comment="")
    cluster.jobs = [ended, running(6, "t2", StartTime=NOW_S + 41), service]
    adviser.advise(NOW_S + 72)
    settings, rows = read_run(tmp_path)
    assert (settings.scheduler, settings.first_s, len(settings.nodes)) == ("fifo", NOW_S, 5)
    assert [(one.id, one.time_s - NOW_S, one.owner) for one in rows if one.id] == [
        (5, 0, False), (6, 0, False), (5, 72, False), (6, 72, False), (9, 72, True)
    ]  # fmt: skip
    assert [one.lent for one in rows if not one.id] == [("i2",)]
    assert [(one.start_s - NOW_S, one.end_s) for one in rows if one.id == 6] == [
        (MISSING - NOW_S, MISSING),
        (41, MISSING),
    ]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    (tmp_path / "run.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(ConfigurationError, match="is no record of a run"):
        read_run(tmp_path)
    with pytest.raises(ConfigurationError, match="has no record of a run"):
        read_run(tmp_path / "absent")
