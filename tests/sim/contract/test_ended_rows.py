"""Ended jobs in views: branches share one table without copies and stay independent."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from mirage.job_state import MISSING
from mirage.policy.view import MOST_ENDED, Ended
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.contract import ended_rows
from mirage.sim.kernel.arrays import BY_PREEMPTION, BY_RESIZE
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable


def simulation(jobs: int = 60, discipline: str = "fcfs", nodes: int = 3) -> Simulation:
    """A job a minute, of names and accounts that repeat."""
    table = JobTable.build(
        range(jobs),
        submit_s=[60 * k for k in range(jobs)],
        elapsed_s=[50 + 7 * (k % 9) for k in range(jobs)],
        limit_s=[600] * jobs,
        nodes=[1 + k % 2 for k in range(jobs)],
        user=[f"u{k % 4}" for k in range(jobs)],
        name=["" if k % 5 == 0 else f"run_{'ab'[k % 2]}_{k}" for k in range(jobs)],
        account=["" if k % 7 == 0 else f"lab{k % 3}" for k in range(jobs)],
    )
    cluster = Cluster.pool(nodes)
    return Simulation(cluster, workload(table, cluster), discipline)


def plain(ended: Ended) -> dict[str, list[int]]:
    return {field.name: getattr(ended, field.name).tolist() for field in fields(Ended)}


def ended_by_segments(sim: Simulation) -> dict[str, list[int]]:
    """What a view must show, straight from the segments and the trace."""
    segments = sim.segments()
    ends = segments[~np.isin(segments.why, [BY_PREEMPTION, BY_RESIZE])][-MOST_ENDED:]
    book, table = sim.labels.book, sim.workload.table
    of_trace = [int(job) if job < len(table) else None for job in ends.id]
    names = [MISSING if row is None or not table.name.values()[row] else row % 2 for row in of_trace]
    listed = list(book.accounts)
    accounts = [MISSING if row is None else _place(listed, table.account.values()[row]) for row in of_trace]
    folded = [MISSING if k == MISSING else book.names["run_" + "ab"[k]] for k in names]
    columns = {"user": "user", "nodes": "width", **{k: k for k in ("limit_s", "submit_s", "start_s", "end_s", "cpus")}}
    return {name: ends[field].tolist() for name, field in columns.items()} | {"name": folded, "account": accounts}


def _place(listed: list[str], name: str) -> int:
    return listed.index(name) if name else MISSING


def assert_true(sim: Simulation) -> Ended:
    ended = sim.view().ended
    assert plain(ended) == ended_by_segments(sim)
    return ended


def test_a_view_shows_what_ended_with_names_and_accounts() -> None:
    sim = simulation()
    assert len(sim.view().ended) == 0
    for time_s in range(0, 4000, 130):
        sim.advance(time_s)
        assert_true(sim)
    ended = sim.view().ended
    assert len(ended) == 60
    assert {MISSING, 0, 1} == set(ended.name)
    assert len(set(ended.account)) == 4


def test_ended_jobs_show_the_cpus_that_they_had_a_node() -> None:
    """Two jobs of a node with 5 CPUs, a job of both nodes, and one on pools."""
    table = JobTable.build(
        range(3), submit_s=[0, 0, 1], elapsed_s=[10, 20, 30], limit_s=[60] * 3, nodes=[1, 1, 2], cpus=[2, 3, 8],
        gpus=[0, 1, MISSING],
    )  # fmt: skip
    for shared, cpus in ((True, [2, 3, 6]), (False, [MISSING] * 3)):
        groups = (NodeGroup("thin", 1, 1, 5), NodeGroup("fat", 1, 0, 7))
        cluster = Cluster(groups, (Partition("all", ("thin", "fat")),), shared_nodes=shared)
        sim = Simulation(cluster, workload(table, cluster), "fcfs")
        sim.advance(100)
        assert sim.view().ended.cpus.tolist() == cpus


def test_views_share_their_rows_and_stay_what_they_were() -> None:
    sim = simulation()
    views: list[tuple[Ended, dict[str, list[int]]]] = []
    for time_s in range(600, 4000, 200):
        sim.advance(time_s)
        ended = sim.view().ended
        views.append((ended, plain(ended)))
    assert all(plain(ended) == then for ended, then in views)
    assert all(np.shares_memory(views[0][0].end_s, ended.end_s) for ended, _ in views), "one table, no copies"
    with pytest.raises(ValueError, match="read-only"):
        views[0][0].end_s[0] = 7


def test_branches_that_part_see_their_own_past_only() -> None:
    """The first branch that writes stays in the table; every other one gets its own."""
    sim = simulation()
    sim.advance(900)
    before = assert_true(sim)
    first_rows = plain(before)
    one, other = sim.fork(), sim.fork()
    for k, branch in enumerate((one, other, sim)):
        branch.inject(nodes=3, limit_s=100 * (k + 1), watched=False)
        branch.advance(2000)
    observed = [assert_true(branch) for branch in (one, other, sim)]
    assert len({tuple(plain(ended)["end_s"]) for ended in observed}) == 3
    of_branch = one.fork()
    one.advance(2600)
    of_branch.inject(nodes=3, limit_s=77, watched=False)
    of_branch.advance(3000)
    for branch in (of_branch, one, other, sim):
        branch.advance(3500)
        assert_true(branch)
    assert plain(before) == first_rows
    assert [plain(ended) for ended in observed] != [plain(sim.view().ended)] * 3


def test_a_fork_without_a_view_enters_what_ended_before_it() -> None:
    sim = simulation()
    for time_s in (500, 1000, 1500):
        sim.advance(time_s)
        sim = sim.fork()
    sim.advance(2000)
    assert len(assert_true(sim)) > 20


def test_a_restored_simulation_forgets_what_it_had_entered() -> None:
    sim = simulation()
    sim.advance(800)
    earlier = sim.fork()
    assert_true(earlier)
    sim.inject(nodes=3, limit_s=333, watched=False)
    sim.advance(2000)
    later = assert_true(sim)
    first_rows = plain(later)
    for until_s in (1000, 3000, 1200):
        sim.restore(earlier)
        assert plain(sim.view().ended) == plain(earlier.view().ended)
        sim.advance(until_s)
        assert_true(sim)
    assert plain(later) == first_rows


def test_a_label_given_in_a_branch_exists_only_there() -> None:
    sim = simulation()
    sim.advance(700)
    one, other = sim.fork(), sim.fork()
    job = one.inject(nodes=1, limit_s=90, watched=False, name="Link_7", account="lab9")
    assert other.inject(nodes=1, limit_s=90, watched=False) == job
    third = sim.fork()
    assert third.inject(nodes=1, limit_s=90, watched=False, name="run_b_99", account="lab1") == job
    book = sim.labels.book
    expected = {one: (book.names["link"], book.accounts["lab9"]), other: (MISSING, MISSING),
                third: (book.names["run_b"], book.accounts["lab1"])}  # fmt: skip
    assert len({*book.names.values()}) == len(book.names) == 3
    for branch, codes in expected.items():
        shown = branch.view()
        place = np.concatenate([shown.pending.id, shown.running.id]) == job
        assert place.any()
        found = [np.concatenate([getattr(shown.pending, k), getattr(shown.running, k)]) for k in ("name", "account")]
        assert tuple(int(column[place][0]) for column in found) == codes
        branch.advance(4000)
        ended = branch.view().ended
        mine = ended.limit_s == 90
        assert [(int(n), int(a)) for n, a in zip(ended.name[mine], ended.account[mine])] == [codes]


def test_only_the_last_are_shown_and_displaced_jobs_are_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few, so that every way of making room is gone."""
    for module in (ended_rows, sys.modules[__name__]):
        monkeypatch.setattr(module, "MOST_ENDED", 7)
    monkeypatch.setattr(ended_rows, "LEAST_ROOM", 8)
    sim = simulation(160)
    tables = []
    for time_s in range(0, 10_000, 90):
        sim.advance(time_s)
        logged = int(sim.state.clock["n_log"][0])
        if time_s % 360 == 0 and logged > sim.ended.entered:
            sim.state.log.why[logged - 1] = BY_PREEMPTION
        if time_s > 700:
            shown = assert_true(sim)
            tables += [] if sim.ended.table in tables else [sim.ended.table]
            assert len(shown) == 7
    assert len(tables) > 2
    assert np.count_nonzero(sim.segments().why == BY_PREEMPTION) > 5
    late = sim.fork()
    late.ended = simulation(160).ended
    assert plain(late.view().ended) == plain(sim.view().ended), "entered at once, from the end backwards"


def test_ends_before_the_first_view_are_entered_from_the_last_ones_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_rows, "MOST_ENDED", 5)
    entered: list[Any] = []
    enter = ended_rows.enter
    monkeypatch.setattr(ended_rows, "enter", lambda *given: entered.append(given[1:3]) or enter(*given))
    sim = simulation()
    sim.advance(3000)
    assert len(sim.view().ended) == 5
    assert [last - first for first, last in entered] == [5]
