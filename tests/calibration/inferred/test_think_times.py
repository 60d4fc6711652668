"""Submissions that follow a user's own jobs: found in a trace, and replayed."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.array_types import Ints
from mirage.calibration.inferred.think_times import (
    ThinkTimes,
    as_submitted,
    closed_loop,
    preceding_events,
    share_by_chance,
)
from mirage.duration import DAY_S, HOUR_S
from mirage.sim.cluster import Cluster
from mirage.sim.kernel.arrays import AFTER_NONE, ANSWERS_END, ANSWERS_START, NO_JOB
from mirage.sim.schedule import Schedule
from mirage.sim.simulation import Simulation
from mirage.sim.workload import Workload, workload
from mirage.trace.table import JobTable


def recorded(*rows: tuple[str, int, int, int], **columns: object) -> JobTable:
    """Jobs (user, submit_s, start_s, end_s) of one node, called j0, j1, …"""
    user, submit_s, start_s, end_s = zip(*rows)
    limit_s = np.maximum(np.subtract(end_s, start_s), 1)
    names = [f"j{k}" for k in range(len(rows))]
    times = {"submit_s": submit_s, "start_s": start_s, "end_s": end_s, "limit_s": limit_s}
    return JobTable.build(names, **times, nodes=np.ones(len(rows)), user=user, **columns)


def run(jobs: Workload, nodes: int = 1, discipline: str = "fcfs") -> Schedule:
    return as_submitted(Simulation(Cluster.pool(nodes), jobs, discipline).run())


def columns(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Job → simulated submission and start."""
    table = schedule.table
    return dict(zip(table.job_id.tolist(), zip(table.submit_s.tolist(), schedule.start_s.tolist())))


def test_a_job_reacts_to_the_last_event_of_its_own_user_only() -> None:
    table = recorded(
        ("ada", 0, 0, 100), ("bob", 50, 50, 400), ("ada", 130, 500, 600), ("bob", 420, 420, 430), ("ada", 505, 700, 800)
    )
    found = preceding_events(table, 60)
    assert found.job.tolist() == [NO_JOB, NO_JOB, 0, 1, 2]
    assert found.kind.tolist() == [AFTER_NONE, AFTER_NONE, ANSWERS_END, ANSWERS_END, ANSWERS_START]
    assert found.think_time_s.tolist() == [0, 0, 30, 20, 5]
    assert found.share == 0.6
    assert preceding_events(table, 19).job.tolist() == [NO_JOB, NO_JOB, NO_JOB, NO_JOB, 2]


def test_of_a_start_and_an_end_the_later_one_is_answered_to() -> None:
    rows = [("ada", 0, 0, 520), ("ada", 1, 500, 900), ("ada", 530, 530, 600)]
    found = preceding_events(recorded(*rows), 60)
    assert (found.job[2], found.kind[2], found.think_time_s[2]) == (0, ANSWERS_END, 10)
    rows[0] = ("ada", 0, 0, 490)
    found = preceding_events(recorded(*rows), 60)
    assert (found.job[2], found.kind[2], found.think_time_s[2]) == (1, ANSWERS_START, 30)


def test_a_start_without_a_wait_is_nothing_to_answer_to() -> None:
    """Jobs of one batch are submitted one after the other, as the first of them start at once."""
    assert preceding_events(recorded(("ada", 0, 1, 900), ("ada", 3, 4, 900), ("ada", 5, 6, 900)), 60).share == 0


def test_a_job_without_a_user_or_an_end_reacts_to_nothing() -> None:
    table = recorded(("", 0, 0, 10), ("", 12, 12, 20), ("ada", 0, 0, -1), ("ada", 5, 5, 9))
    assert preceding_events(table, 60).job.tolist() == [NO_JOB] * 4


@pytest.mark.parametrize("discipline", ["fcfs", "easy", "conservative", "slurm"])
def test_a_job_is_submitted_its_think_time_after_the_simulated_end(discipline: str) -> None:
    """What ended at 100 ends at 300 here, where one node is shared with another user's job."""
    table = recorded(("bob", 0, 0, 200), ("ada", 1, 1, 101), ("ada", 131, 131, 231))
    found = columns(run(closed_loop(workload(table, Cluster.pool(1)), 60), discipline=discipline))
    assert found["j1"][1] >= 200
    ended_s = found["j1"][1] + 100
    assert found["j2"][0] == ended_s + 30
    assert found["j2"][1] >= ended_s + 30


def test_a_job_is_submitted_earlier_where_the_one_before_it_ends_earlier() -> None:
    table = recorded(("ada", 0, 500, 600), ("ada", 610, 610, 700))
    found = columns(run(closed_loop(workload(table, Cluster.pool(1)), 60)))
    assert found == {"j0": (0, 0), "j1": (110, 110)}


def test_an_answer_to_a_start_follows_the_simulated_start() -> None:
    table = recorded(("ada", 0, 500, 5000), ("ada", 507, 600, 700))
    assert columns(run(closed_loop(workload(table, Cluster.pool(2)), 60), nodes=2))["j1"] == (7, 7)


def test_a_job_that_comes_later_than_the_longest_think_time_is_submitted_as_recorded() -> None:
    table = recorded(("ada", 0, 500, 600), ("ada", 660, 660, 700), ("bob", 3, 3, 9), ("bob", 2000, 2000, 2005))
    table = table.sorted_by_submit()
    for longest_s, submit_s in ((59, 660), (60, 160)):
        found = columns(run(closed_loop(workload(table, Cluster.pool(2)), longest_s), nodes=2))
        assert found["j1"][0] == submit_s
        counted = ThinkTimes.of(table, longest_s)
        assert (counted.jobs, counted.longest_s) == (4, longest_s)
        assert (counted.answer, counted.share) == ((0, 0.0) if longest_s == 59 else (1, 0.25))
    assert ThinkTimes.of(table, 2000).answer == 2
    assert ThinkTimes.of(table[:0]) == ThinkTimes(0, 0, 0.0, 0.0, 1200)


def test_jobs_of_one_second_stay_in_their_order() -> None:
    """A job that reacts is submitted with the job that it follows, after all of that second."""
    rows = [("ada", 0, 500, 600), *((f"u{k}", 0, 700 + k, 900) for k in range(40)), ("ada", 610, 610, 700)]
    made = closed_loop(workload(recorded(*rows), Cluster.pool(2)), 60)
    assert made.table.job_id.tolist() == [f"j{k}" for k in range(42)]
    assert made.jobs.submit_s.tolist() == [0] * 42
    assert made.jobs.after[-1] == 0


def test_a_chain_of_answers_moves_as_a_whole() -> None:
    rows = [("ada", 100 * k, 100 * k + 60, 100 * k + 95) for k in range(200)]
    found = columns(run(closed_loop(workload(recorded(*rows), Cluster.pool(1)), 10)))
    assert [found[f"j{k}"] for k in (0, 1, 199)] == [(0, 0), (40, 40), (199 * 40, 199 * 40)]


def test_a_job_that_answers_is_in_no_view_before_its_submission() -> None:
    table = recorded(("ada", 0, 0, 100), ("ada", 130, 130, 200), ("bob", 150, 150, 160))
    sim = Simulation(Cluster.pool(1), closed_loop(workload(table, Cluster.pool(1)), 60), "easy")
    for now_s, expected in ((0, [0]), (99, [0]), (100, []), (129, []), (130, [1])):
        sim.advance(now_s)
        view = sim.view()
        shown = [*view.pending.id.tolist(), *view.running.id.tolist(), *view.held.id.tolist()]
        assert shown == expected, now_s


def test_a_branch_continues_the_closed_loop() -> None:
    table = recorded(("ada", 0, 0, 100), ("ada", 130, 130, 200), ("ada", 210, 210, 300))
    sim = Simulation(Cluster.pool(1), closed_loop(workload(table, Cluster.pool(1)), 60), "easy")
    sim.advance(50)
    branch = sim.fork()
    sim.run()
    assert columns(as_submitted(branch.run())) == columns(as_submitted(sim.schedule())) != {}
    sim.restore(branch)


def test_a_job_with_a_dependency_retains_it() -> None:
    table = recorded(("ada", 0, 0, 100), ("bob", 0, 0, 50), ("ada", 110, 110, 200), dependency=("", "", "afterany:j1"))
    made = closed_loop(workload(table, Cluster.pool(2)), 60)
    assert made.jobs.after[made.table.job_id == "j2"].tolist() == np.flatnonzero(made.table.job_id == "j1").tolist()
    assert (made.jobs.after_kind < ANSWERS_END).all()


def test_chance_is_measured_a_week_apart() -> None:
    """Random submissions follow an own end now and then; reactions to jobs do so always."""
    dice = np.random.default_rng(5)

    def month(gaps_s: Ints) -> JobTable:
        rows, now_s = [], 0
        for gap_s in gaps_s.tolist():
            rows.append(("ada", now_s, now_s, now_s + HOUR_S))
            now_s += HOUR_S + gap_s
        return recorded(*rows)

    eager = month(dice.integers(10, 600, 300))
    assert preceding_events(eager).share > 0.99
    assert 0.1 < share_by_chance(eager) < 0.5
    rare = month(dice.integers(2 * HOUR_S, DAY_S, 60))
    assert preceding_events(rare).share == 0
    assert share_by_chance(rare) < 0.1


def test_chance_is_the_mean_of_a_week_earlier_and_a_week_later() -> None:
    """The second job follows the first one's end a week later; none follows one a week ahead."""
    jobs = recorded(("ada", 0, 0, HOUR_S), ("ada", 7 * DAY_S + HOUR_S + 60, 7 * DAY_S + HOUR_S + 60, 8 * DAY_S))
    assert share_by_chance(jobs) == 0.25
