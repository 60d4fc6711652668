"""Hand-overs of a recorded chain."""

from __future__ import annotations

from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun, HandOver, LinkRecord
from mirage.provision.link_size import LinkSize


def run(until_s: int, *links: tuple[int, int, int]) -> ChainRun:
    """A chain of links (start, readiness, end), each submitted at its start."""
    records = tuple(LinkRecord(k, k, start, start, end, ready_s=ready) for k, (start, ready, end) in enumerate(links))
    return ChainRun(LinkSize(2), 0, until_s, records, ())


def test_a_link_that_loads_beyond_the_end_of_the_last_one_overlaps_and_interrupts() -> None:
    chain = run(1_000, (0, MISSING, 100), (60, 130, 300))
    assert chain.hand_overs == (HandOver(0, 100, 30, 40, following=1), HandOver(1, 300, 700, open=True))
    assert chain.cost(Cost(3600, 7200)) == 730 + 2 * 40


def test_the_nodes_of_a_link_that_loads_beyond_the_horizon_are_held_twice_too() -> None:
    (hand_over,) = run(120, (0, MISSING, 100), (60, 130, 300)).hand_overs
    assert (hand_over.overlap_s, hand_over.following) == (40, 1)
