"""When a link is not submitted yet, although nothing prevents it."""

from __future__ import annotations

import pytest

from mirage.agent.cycle.retries import clock_of
from mirage.agent.cycle.submit import Submissions, proof_s
from mirage.agent.settings import AgentSettings
from mirage.job_state import MISSING, JobState
from tests.support.one_chain import NOW_S, OneChain, ended, planned, running


@pytest.mark.parametrize(
    ("failures", "most", "expected_s"),
    [(0, 3, 0), (1, 3, 0), (2, 3, 9_601), (3, 3, 9_601), (0, 1, 0), (1, 2, 9_601)],
)
def test_the_last_link_before_the_brake_must_run_on_before_another_waits_for_its_end(
    failures: int, most: int, expected_s: int
) -> None:
    world = OneChain(running(1), chain={"failures": failures}, settings=AgentSettings(failures=most))
    assert proof_s(world.context, world.chain, world.links[0]) == expected_s


def test_a_fourth_of_a_short_limit_is_enough_and_an_ended_link_needs_no_proof() -> None:
    world = OneChain(running(1, limit_s=1_000), chain={"failures": 2})
    assert proof_s(world.context, world.chain, world.links[0]) == 9_251
    assert proof_s(world.context, world.chain, None) == 0
    assert proof_s(world.context, world.chain, ended(1, JobState.FAILED)) == 0


def test_until_then_the_chain_waits_and_reports_why() -> None:
    world = OneChain(running(1, started_s=NOW_S - 5), planned(2), chain={"failures": 2})
    Submissions().submit_planned(world.context, world.chain)
    due_s = NOW_S - 5 + 601
    assert world.chain.next_try_s == due_s
    assert world.links[1].attempted_s == MISSING
    assert world.trouble == (
        f"2 links in a row failed soon after their start; the next is submitted after {clock_of(due_s)}, if this one "
        "runs on"
    )
