"""Links on nodes that leave service: the next link is released without a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.model import LinkState
from mirage.job_state import JobState
from mirage.slurm.records import Machine, Node
from tests.support.one_chain import NOW_S, held, job, queued, running
from tests.support.scripted_policies import Deciding, deciding_chain, pair

FREE = {"Dependency": ""}


def deciding(state: str, *, nodelist: str = "n[0-1]", waiting: object = None, **spec: object) -> Deciding:
    """A chain with a link on two nodes, the second of which is in a state."""
    nodes = (Node("n0", "allocated", True, 8, 0, ("main",)), Node("n1", state, False, 8, 0, ("main",)))
    world = deciding_chain(running(1, ready_s=9_000, nodelist=nodelist), waiting or held(2), **spec)
    world.context.machine = Machine(nodes, ())
    return Deciding(world)


@pytest.mark.parametrize("state", ["draining", "drained", "down", "failing", "allocated+drain"])
def test_the_next_link_is_released_at_once_and_no_policy_is_queried(state: str) -> None:
    case = deciding(state)
    case.world.context.change_chain(case.world.chain, next_decision_s=NOW_S + 3_000)
    assert case.cycle() == 0
    assert case.runner.requested == []
    assert case.world.slurm.calls == [("update", 102, FREE)]
    assert case.world.links[1].state is LinkState.QUEUED
    [record] = case.world.store.decided
    assert (record.policy, record.submits, record.reason) == (
        "node-state", True, f"node-leaves-service:{state}:n1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "known"),
    [
        ("mixed", {}),
        ("allocated", {}),
        ("reserved", {}),
        ("draining", {"nodelist": "n0"}),
        ("draining", {"nodelist": ""}),
    ],
)
def test_otherwise_the_policy_decides(state: str, known: dict[str, str]) -> None:
    case = deciding(state, **known)
    assert case.cycle() == 1
    assert (len(case.runner.requested), case.world.slurm.calls) == (1, [])


def test_without_knowledge_of_the_nodes_the_policy_decides() -> None:
    case = deciding("draining")
    case.world.context.machine = None
    assert case.cycle() == 1


def test_a_chain_that_never_holds_two_waits_for_the_end_of_its_link() -> None:
    case = deciding("draining", never_two=True)
    assert (case.cycle(), case.world.slurm.calls) == (0, [])


def test_without_a_turn_nothing_is_released() -> None:
    case = deciding("draining")
    assert (case.cycle(0, 99), case.world.slurm.calls) == (0, [])


def test_an_open_question_is_dropped() -> None:
    case = deciding("allocated")
    assert case.cycle() == 1
    machine = case.world.context.machine
    assert machine is not None
    case.world.context.machine = Machine((replace(machine.nodes[1], state="draining"),), ())
    assert case.cycle(15) == 0
    assert len(case.world.store.decided) == 1


@pytest.mark.parametrize(
    ("dependency", "calls"),
    [("afterany:101", [("update", 102, {"Dependency": "", "StartTime": "now"})]), ("", [])],
)
def test_a_link_that_was_held_again_is_released_again_and_stays_so(
    dependency: str, calls: list[tuple[object, ...]]
) -> None:
    case = deciding("draining", waiting=queued(2, released_s=9_500), policy="holds")
    present = pair()[0]
    case.world.shows(present, job(102, JobState.PENDING, link=2, partition="main", dependency=dependency))
    assert case.cycle() == 0
    assert case.runner.requested == [], "its policy does not hold it again"
    assert case.world.slurm.calls == calls
    assert [record.revision for record in case.world.store.decided] == (["release"] if calls else [])
