"""The checker of policies finds what breaks the contract, and every registered policy passes it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from mirage.errors import ConfigurationError, ContractBroken
from mirage.policy.check import check_policy
from mirage.policy.contract import Policy
from mirage.policy.example import example_views
from mirage.policy.plan import Action, Plan, Submit, Wait
from mirage.policy.registry import known_policies, make_policy, policy_spec
from mirage.policy.view import View
from mirage.schedule.srtf import Srtf
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.trace.table import JobTable

PARAMETERS = {"lead": "4", "quantile": "0.9"}
"""What to try the policies with that do not go without a parameter."""


def example(name: str) -> Policy | None:
    """The policy of a name; None if it cannot be had without a parameter that is not at hand, and says so."""
    spoken = f"{name}:{PARAMETERS[name]}" if name in PARAMETERS else name
    try:
        return make_policy(spoken)
    except ConfigurationError as error:
        if policy_spec(name).parameter not in str(error):
            raise
        return None


@pytest.mark.parametrize("name", sorted(known_policies()))
def test_every_registered_policy_keeps_its_contract(name: str) -> None:
    if example(name) is not None:
        check_policy(lambda: example(name))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("name", sorted(known_policies()))
def test_every_provisioner_follows_a_link_that_has_ended_and_leaves_one_that_waits(name: str) -> None:
    if (policy := example(name)) is not None:
        first, *_, last = example_views()
        assert not policy.decide(first).submits
        assert policy.decide(last).submits


def test_a_policy_of_the_whole_cluster_is_checked_on_views_of_a_simulation() -> None:
    table = JobTable.build([1, 2], submit_s=[0, 5], elapsed_s=[50, 5], limit_s=[60, 60], nodes=[2, 1])
    work = workload(table, Cluster.pool(2))
    sim = Simulation(Cluster.pool(2), work, "fcfs")
    views = []
    for time_s in (0, 5, 40):
        sim.advance(time_s)
        views.append(sim.view())
    check_policy(lambda: Srtf(work.jobs.run_s), views)


def deciding(decide: Callable[[View], Plan]) -> Callable[[], object]:
    class Made:
        def decide(self, view: View) -> Plan:
            return decide(view)

    return Made


class Forgetful:
    """Numbers its instances: two of a kind are not alike."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def decide(self, view: View) -> Plan:
        return Plan((Wait(reason=f"made:{self.made}"),))


class Unheard(Action):
    """Nobody knows this."""


def write_into(view: View) -> Plan:
    view.pending.nodes[0] += 1
    return Plan()


def look_at_the_clock(view: View) -> Plan:
    clock = time.monotonic()
    return Plan((Wait(reason=f"it-is:{clock // 1e8}"),))


def roll_a_die(view: View) -> Plan:
    return Plan((Wait(reason="die"),), {"die": np.random.default_rng().random()})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: object(), "is no policy: a policy is an object with decide"),
        (lambda: Forgetful, "is no policy: a policy is an object with decide"),
        (
            deciding(lambda view: Plan((Submit(reason="now"),))),
            "submits the next link while the present one, job 0, is still waiting",
        ),
        (deciding(lambda view: None), "answers None; a policy answers a Plan"),  # type: ignore[arg-type,return-value]
        (deciding(lambda view: Plan((Submit(),))), "plans Submit.* without a reason"),
        (deciding(lambda view: Plan((Unheard(reason="x"),))), "which nobody can carry out; there are Cancel, Lend"),
        (deciding(lambda view: Plan((), {"p": "high"})), "estimates 'p' = 'high'"),  # type: ignore[dict-item]
        (deciding(write_into), "changed the view of second"),
        (deciding(look_at_the_clock), "asked twice about second"),
        (deciding(roll_a_die), "asked twice about second"),
        (Forgetful, "asked twice about second"),
    ],
)
def test_a_broken_contract_is_found(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ContractBroken, match=message):
        check_policy(make)  # type: ignore[arg-type]


def test_a_policy_that_opens_files_is_found() -> None:
    def read(view: View) -> Plan:
        with open(__file__) as file:
            return Plan((Wait(reason=f"line:{len(file.readline())}"),))

    with pytest.raises(ContractBroken, match=r"opens .* while it decides"):
        check_policy(deciding(read))  # type: ignore[arg-type]


def test_the_example_views_hold_together() -> None:
    for view in example_views():
        assert view.nodes.free[0, 0] == view.nodes.total - view.running.width.sum() >= 0
        assert (view.running.start_s + view.running.limit_s > view.now_s).all()
        assert (view.pending.start_s == -1).all()
        assert len({*view.pending.id, *view.running.id}) == len(view.pending) + len(view.running)
        assert view.chain is not None
        assert (view.chain.predecessor in view.running.id) == (view.chain.started_s <= view.now_s < view.chain.ends_s)
