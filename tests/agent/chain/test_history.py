"""What became of a chain, from its links: known answers, then seconds counted one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.agent.chain.history import chain_run, most_nodes, requested_nodes
from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.provision.chain_record import HandOver
from mirage.slurm.records import Submission

CHAIN = Chain(1, "train", ChainSpec(Submission("job.sh", {"nodes": "2"})), 0)
DONE = replace(CHAIN, state=ChainState.DONE)


def ran(number: int, start_s: int, end_s: int, *, requested_s: int | None = None, held_s: int | None = None) -> Link:
    requested_s = start_s if requested_s is None else requested_s
    return Link(
        1, number, LinkState.ENDED, job=10 + number, attempted_s=0,
        submitted_s=requested_s if held_s is None else held_s,
        released_s=requested_s, started_s=start_s, limit_s=100, ended_s=end_s,
    )  # fmt: skip


def runs(number: int, start_s: int) -> Link:
    return replace(ran(number, start_s, 0), state=LinkState.RUNNING, ended_s=MISSING)


def waits(number: int, requested_s: int, *, held: bool = False) -> Link:
    state, released_s = (LinkState.HELD, MISSING) if held else (LinkState.QUEUED, requested_s)
    return Link(1, number, state, job=10 + number, submitted_s=requested_s, released_s=released_s, limit_s=100)


NEVER = replace(waits(2, 50), state=LinkState.ENDED, ended_s=60)


def test_a_chain_without_links_has_lost_nothing() -> None:
    for links in ([], [Link(1, 1)], [NEVER]):
        run = chain_run(CHAIN, links, (), 500)
        assert (run.links, run.hand_overs, run.interruption_s, run.availability) == ((), (), 0, 0.0)


def test_a_gap_and_an_overlap() -> None:
    run = chain_run(CHAIN, [ran(1, 0, 100), ran(2, 130, 230), runs(3, 190)], (), 250)
    assert run.hand_overs == (HandOver(0, 100, 30, 0, following=1), HandOver(1, 230, 0, 40, following=2))
    assert (run.interruption_s, run.overlap_s) == (30, 40)
    assert run.availability == pytest.approx(1 - 30 / 250)
    assert run.wasted_node_h == pytest.approx(2 * 40 / 3600)


def test_a_link_that_loads_beyond_the_end_of_the_one_before_overlaps_and_interrupts() -> None:
    loads = replace(ran(2, 60, 200), ready_s=130)
    run = chain_run(replace(CHAIN, spec=replace(CHAIN.spec, warmup_s=70)), [ran(1, 0, 100), loads], (), 150)
    assert run.hand_overs == (HandOver(0, 100, 30, 40, following=1),)
    assert (run.interruption_s, run.overlap_s) == (30, 40)
    assert run.cost(Cost(3, 1)) == pytest.approx((3 * 30 + 40) / 3600)


def test_a_link_that_never_ran_took_over_from_none() -> None:
    run = chain_run(CHAIN, [ran(1, 0, 100), NEVER, runs(3, 140)], (), 200)
    assert run.hand_overs == (HandOver(0, 100, 40, 0, following=2),)
    assert run.after(0) == run.links[1]
    assert run.after(2) is None


def test_while_the_next_waits_the_gap_grows() -> None:
    run = chain_run(CHAIN, [ran(1, 0, 100), waits(2, 60)], (), 170)
    assert run.hand_overs == (HandOver(0, 100, 70, 0, open=True),)


@pytest.mark.parametrize("state", [ChainState.ENDING, ChainState.DONE])
def test_after_its_end_a_chain_misses_nothing(state: ChainState) -> None:
    run = chain_run(replace(CHAIN, state=state), [ran(1, 0, 100), ran(2, 110, 200)], (), 10**6)
    assert (run.until_s, run.interruption_s, len(run.hand_overs)) == (200, 10, 1)
    assert run.availability == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("stopped_s", "lost_s"),
    [(100, 0), (90, 0), (115, 15), (130, 30), (180, 30), (230, 30), (260, 60)],
)
@pytest.mark.parametrize("loads", [False, True])
def test_no_link_is_missed_from_the_instant_on_at_which_none_was_wanted(
    stopped_s: int, lost_s: int, loads: bool
) -> None:
    """Link 2 serves from 130 until 230; with a warm-up it has held its node since 95.

    That overlaps the end of link 1.
    """
    following = replace(ran(2, 95, 230), ready_s=130) if loads else ran(2, 130, 230)
    spec = replace(CHAIN.spec, warmup_s=35 if loads else 0)
    run = chain_run(replace(DONE, spec=spec, stopped_s=stopped_s), [ran(1, 0, 100), following], (), 10**6)
    assert (run.interruption_s, run.overlap_s) == (lost_s, 5 if loads else 0)


UNSEEN = replace(ran(2, 110, 0), ended_s=MISSING)
"""A link of a chain that is done, of whose end nobody was told."""


@pytest.mark.parametrize(
    ("links", "until_s"),
    [
        ([ran(1, 0, 100), ran(2, 110, 200)], 200),
        ([ran(1, 0, 100), UNSEEN], 210),
        ([ran(1, 0, 100), replace(UNSEEN, limit_s=UNLIMITED_S)], 110),
        ([ran(1, 0, 250), ran(2, 110, 200)], 250),
        ([NEVER], 7),
        ([], 7),
    ],
)
def test_the_record_of_a_finished_chain_depends_on_no_clock(links: list[Link], until_s: int) -> None:
    done = replace(DONE, created_s=7)
    runs = [chain_run(done, links, (), now_s) for now_s in (0, 50, 150, 10**6)]
    assert runs == [runs[0]] * 4
    assert runs[0].until_s == until_s


def test_a_paused_chain_continues_missing_a_link() -> None:
    assert chain_run(replace(CHAIN, state=ChainState.PAUSED), [ran(1, 0, 100)], (), 400).interruption_s == 300


def test_a_link_that_has_outlived_its_limit_runs_still() -> None:
    run = chain_run(CHAIN, [runs(1, 0)], (), 160)
    assert (run.links[0].ends_s, run.interruption_s) == (160, 0)
    assert chain_run(CHAIN, [runs(1, 0)], (), 60).links[0].ends_s == 100


def test_a_link_without_a_limit_runs_until_now() -> None:
    run = chain_run(CHAIN, [replace(runs(1, 0), limit_s=UNLIMITED_S)], (), 500)
    assert (run.links[0].ends_s, run.until_s, run.interruption_s) == (500, 500, 0)


def test_a_successor_that_dies_first_takes_over_nothing() -> None:
    run = chain_run(CHAIN, [ran(1, 0, 100), ran(2, 60, 70), runs(3, 80)], (), 150)
    assert [(h.interruption_s, h.overlap_s) for h in run.hand_overs] == [(0, 10), (0, 20)]
    assert (run.interruption_s, run.overlap_s) == (0, 30)


def test_held_is_not_waiting() -> None:
    run = chain_run(
        CHAIN, [ran(1, 0, 100), ran(2, 110, 210, requested_s=80, held_s=5), waits(3, 120, held=True)], (), 150
    )
    assert [(r.held_s, r.submitted_s) for r in run.links] == [(MISSING, 0), (5, 80), (120, 150)]
    first = replace(waits(1, 20, held=True))
    assert chain_run(CHAIN, [first], (), 90).begin_s == 20


def test_decisions_report_what_was_left_then() -> None:
    reported = DecisionRecord(1, 1, 70, "what-if", True, "now", {"wait_p50_s": 30.0})
    stray = replace(reported, link=9)
    (decision,) = chain_run(CHAIN, [ran(1, 0, 85), runs(2, 80)], [reported, stray], 90).decisions
    assert (decision.link, decision.remaining_s, decision.submits, decision.estimate) == (
        0,
        30,
        True,
        reported.estimate,
    )


@pytest.mark.parametrize(
    ("output", "nodes", "most"),
    [
        ("4", 4, 4), ("2-8", 2, 8), ("2-1k", 2, 1024), ("0", 1, 1), (None, 1, 1), ("", 1, 1), ("4,6", 4, 6),
        ("many", 1, 1),
    ],
)  # fmt: skip
def test_nodes_are_read_from_the_options(output: str | None, nodes: int, most: int) -> None:
    spec = ChainSpec(Submission("job.sh", {"nodes": output}))
    assert (requested_nodes(spec), most_nodes(spec)) == (nodes, most)
    assert requested_nodes(ChainSpec(Submission("job.sh"))) == 1


@given(st.lists(st.tuples(st.integers(-30, 60), st.integers(1, 80)), min_size=1, max_size=6), st.integers(0, 60))
def test_interruption_and_overlap_are_the_seconds_with_no_link_and_with_two(
    steps: list[tuple[int, int]], later_s: int
) -> None:
    """Where each link outlives the one before, and starts after the one before that has ended."""
    links, end_s, floor_s = [], 0, 0
    for number, (x_s, length_s) in enumerate(steps, 1):
        start_s = max(end_s + x_s, floor_s) if links else 0
        floor_s, end_s = max(start_s, end_s), max(start_s + length_s, end_s + 1)
        links.append(ran(number, start_s, end_s))
    now_s = end_s + later_s
    count = [sum(link.started_s <= t < link.ended_s for link in links) for t in range(now_s)]
    run = chain_run(CHAIN, links, (), now_s)
    assert run.interruption_s == count.count(0)
    assert run.overlap_s == count.count(2)
    over = chain_run(DONE, links, (), now_s)
    assert over.interruption_s == count[:end_s].count(0)
    assert over.overlap_s == run.overlap_s
