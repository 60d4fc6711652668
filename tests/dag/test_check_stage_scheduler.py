"""The checker of stage schedulers finds violations; every built-in scheduler passes."""

from __future__ import annotations

import pytest

from mirage.array_types import Floats
from mirage.dag.check_stage_scheduler import check_stage_scheduler
from mirage.dag.schedulers.serving import serve_by_arrival
from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, StageSchedulerSpec
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING, decision
from mirage.errors import ConfigurationError, ContractBroken
from mirage.kernel.compile import kernel


@kernel(DECIDER)
def nothing(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """Picks nothing."""
    return NOTHING


@kernel(DECIDER)
def first(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """Picks the first stage, whether it may be picked or not."""
    return decision(0, 1)


@kernel(DECIDER)
def learning(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """Changes the state."""
    decided = serve_by_arrival(world, state, 3, False)
    state.clock[0].moves += 1
    return decided


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nothing", "left 12 jobs without executors|without executors"),
        ("first", "picked a stage that may not be picked"),
        ("learning", "a decision changes world or state; write to the parameters alone"),
    ],
)
def test_a_violation_is_named(name: str, complaint: str) -> None:
    with pytest.raises(ContractBroken, match=rf"test_check_stage_scheduler:{name} on 7 executors in .*({complaint})"):
        check_stage_scheduler(StageSchedulerSpec(f"{__name__}:{name}", ""))


@pytest.mark.parametrize("name", [name for name, spec in SCHEDULERS.items() if not spec.makes])
def test_built_in_rules_pass(name: str) -> None:
    check_stage_scheduler(name)


@pytest.mark.parametrize("name", ["tree", "fair:1", "decima:own", "decima-argmax:own"])
def test_trees_networks_and_parameters_pass(name: str) -> None:
    check_stage_scheduler(name, seeds=1)


def test_a_check_needs_an_episode() -> None:
    with pytest.raises(ConfigurationError, match="a check needs an episode, got 0 seeds"):
        check_stage_scheduler("fair", seeds=0)
