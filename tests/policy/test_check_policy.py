"""The checker of policies finds violations; every registered policy passes."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from time import time as now
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError, ContractBroken
from mirage.policy.check_policy import check_policy
from mirage.policy.contract import Policy
from mirage.policy.example_views import example_views, queued_views
from mirage.policy.plan import Action, Hold, Plan, Postpone, Release, Shorten, Submit, Wait, Withdraw
from mirage.policy.policy_registry import known_policies, make_policy, policy_spec
from mirage.policy.view import QueuedLink, View
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.plain_srtf import Srtf

PARAMETERS = {"lead": "4", "quantile": "0.9"}
"""What to try the policies with that do not go without a parameter."""


def example(name: str) -> Policy | None:
    """The policy of a name; None if it needs a parameter that is not at hand."""
    spoken = f"{name}:{PARAMETERS[name]}" if name in PARAMETERS else name
    try:
        return make_policy(spoken)
    except ConfigurationError as error:
        if policy_spec(name).parameter not in str(error):
            raise
        return None


@pytest.mark.parametrize("name", sorted(known_policies()))
def test_every_registered_policy_fulfils_its_contract(name: str) -> None:
    if example(name) is not None:
        revises_queued_link = policy_spec(name).revises_queued_link
        check_policy(lambda: example(name), revises_queued_link=revises_queued_link)  # type: ignore[arg-type,return-value]


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
    class Decider:
        def decide(self, view: View) -> Plan:
            return decide(view)

    return Decider


class Forgetful:
    """Numbers its instances: two of a kind are not alike."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def decide(self, view: View) -> Plan:
        return Plan((Wait(reason=f"made:{self.made}"),))


class Counting:
    """Counts its decisions: given a view twice, it plans otherwise."""

    def __init__(self) -> None:
        self.decisions = 0

    def decide(self, view: View) -> Plan:
        self.decisions += 1
        return Plan((Wait(view.now_s + self.decisions, reason="count"),))


class Unheard(Action):
    """An unknown action."""


def write_into(view: View) -> Plan:
    view.pending.nodes[0] += 1
    return Plan()


def roll_a_die(view: View) -> Plan:
    return Plan((Wait(reason="die"),), {"die": np.random.default_rng().random()})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: object(), "is not a policy: a policy is an object with decide"),
        (lambda: Forgetful, "is not a policy: a policy is an object with decide"),
        (
            deciding(lambda view: Plan((Submit(reason="now"),))),
            "submits the next link while the present one, job 0, is still waiting",
        ),
        (deciding(lambda view: None), "returns None; a policy returns a Plan"),  # type: ignore[arg-type,return-value]
        (deciding(lambda view: Plan((Submit(),))), "plans Submit.* without a reason"),
        (deciding(lambda view: Plan((Unheard(reason="x"),))), "which is no known action; known are Cancel, Lend"),
        (deciding(lambda view: Plan((), {"p": "high"})), "estimates 'p' = 'high'"),  # type: ignore[dict-item]
        (deciding(write_into), "changed the view of second"),
        (deciding(lambda view: Plan((Submit(reason="a"), Submit(reason="b")))), "submits 2 links in one plan"),
        (deciding(roll_a_die), r"given the view of second \d+ twice"),
        (Forgetful, r"given the view of second \d+ twice"),
        (Counting, r"given the view of second \d+ twice"),
    ],
)
def test_a_broken_contract_is_found(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ContractBroken, match=message):
        check_policy(make)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [Counting(), "lead:4"])
def test_a_policy_is_checked_by_what_makes_it(make: Any) -> None:
    with pytest.raises(ConfigurationError, match="give a class or function that makes the policy, got"):
        check_policy(make)


def test_a_check_without_views_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no view to check the policy with"):
        check_policy(Counting, [])


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (now, "reads the clock time while"),
        (datetime.now, "reads the clock datetime.now"),
        (date.today, "reads the clock date.today"),
        *((getattr(time, name), f"reads the clock {name} while") for name in ("time_ns", "perf_counter")),
        (
            lambda: open(__file__).close(),
            "opens .*test_check_policy.py' while it decides; do that when the policy is made",
        ),
        (Path(__file__).read_text, "opens .*test_check_policy.py"),
        (lambda: list(Path(__file__).parent.iterdir()), "lists "),
        (lambda: subprocess.run(["true"], check=True), "starts 'true'"),
        (lambda: os.system("true"), "starts b?'true'"),
        (lambda: sqlite3.connect(":memory:"), "opens ':memory:'"),
    ],
)
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_decision_has_no_effects(effect: Callable[[], object], message: str, swallowed: bool) -> None:
    def decide(view: View) -> Plan:
        with suppress(Exception) if swallowed else nullcontext():
            effect()
        return Plan((Wait(reason="always"),))

    with pytest.raises(ContractBroken, match=f"the policy ({message})"):
        check_policy(deciding(decide))  # type: ignore[arg-type]


def test_what_the_garbage_collector_calls_is_no_part_of_a_decision() -> None:
    many: list[list[int]] = []

    def decide(view: View) -> Plan:
        many.extend([] for _ in range(10_000))
        return Plan((Wait(reason="always"),))

    def callback(phase: str, info: dict[str, int]) -> None:
        now()

    gc.callbacks.append(callback)
    try:
        check_policy(deciding(decide))  # type: ignore[arg-type]
    finally:
        gc.callbacks.remove(callback)
    assert gc.isenabled()


def test_the_example_views_hold_together() -> None:
    for view in (*example_views(), *queued_views()):
        assert view.nodes.free[0, 0] == view.nodes.total - view.running.width.sum() >= 0
        assert (view.running.start_s + view.running.limit_s > view.now_s).all()
        assert (view.pending.start_s == -1).all()
        assert len({*view.pending.id, *view.running.id}) == len(view.pending) + len(view.running)
        assert view.chain is not None
        assert (view.chain.predecessor in view.running.id) == (view.chain.started_s <= view.now_s < view.chain.ends_s)


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (
            lambda view: Plan((Unheard(reason="x"),)),
            "Decider plans Unheard(reason='x'), which is no known action; known are Cancel, Lend, Preempt, Reclaim, "
            "Resize, Resume, Start, Submit, Wait, Hold, Postpone, Release, "
            "Shorten, Withdraw",
        ),
        (
            lambda view: Plan((Wait(reason="ok"), Wait(until_s=9))),
            "Decider plans Wait(reason='', until_s=9) without a reason; give one as word or word:key=value,…",
        ),
        (
            lambda view: Plan((), {3: 1.0}),  # type: ignore[dict-item]
            "Decider estimates 3 = 1.0; estimates map names to numbers",
        ),
        (
            lambda view: Plan((), {"wait_s": None}),  # type: ignore[dict-item]
            "Decider estimates 'wait_s' = None; estimates map names to numbers",
        ),
        (
            lambda view: [Wait(reason="x")],
            "Decider returns [Wait(reason='x', until_s=None)]; a policy returns a Plan, an empty one to do nothing",
        ),
        (
            lambda view: Plan((Wait(reason="x"), Submit(reason="now"))),
            "Decider submits the next link while the present one, job 0, is still waiting; wait until chain.started_s "
            "is known",
        ),
    ],
)
def test_a_violation_of_a_plan_is_described_in_full(decide: Callable[[View], Plan], message: str) -> None:
    with pytest.raises(ContractBroken) as broken:
        check_policy(deciding(decide))  # type: ignore[arg-type]
    assert str(broken.value) == message


@pytest.mark.parametrize("part", ["pending", "running", "held", "ended", "nodes"])
def test_no_part_of_a_view_may_be_written_into(part: str) -> None:
    def write(view: View) -> Plan:
        column = view.nodes.free if part == "nodes" else getattr(view, part).submit_s
        column[:1] += 1
        return Plan()

    first, *rest = example_views()
    views = [replace(first, held=first.pending), *rest]
    with pytest.raises(ContractBroken) as broken:
        check_policy(deciding(write), views)  # type: ignore[arg-type]
    assert str(broken.value) == f"Decider changed the view of second {views[0].now_s}; copy what you change"


def test_a_differing_second_plan_is_quoted_with_the_first() -> None:
    with pytest.raises(ContractBroken) as broken:
        check_policy(Forgetful)
    numbers = (Forgetful.made - 1, Forgetful.made)
    first, second = (f"Plan(actions=(Wait(reason='made:{n}', until_s=None),), estimate={{}})" for n in numbers)
    assert str(broken.value) == f"given the view of second 3600000 twice, the policy plans {first} and then {second}"


def test_files_and_clocks_may_be_read_while_a_policy_is_made() -> None:
    class Reads:
        def __init__(self) -> None:
            with open(__file__) as file:
                self.line = file.readline().strip()
            self.known = time.time() > 0

        def decide(self, view: View) -> Plan:
            return Plan((Wait(reason=self.line),), {"known": self.known, "now_s": np.int64(view.now_s), "p": 0.5})

    check_policy(Reads)


def test_clocks_and_files_are_as_before_when_the_check_is_over() -> None:
    before = sys.getprofile()
    with pytest.raises(ContractBroken):
        check_policy(deciding(lambda view: Path(__file__).read_text()))  # type: ignore[arg-type,return-value]
    assert sys.getprofile() is before
    assert Path(__file__).stat().st_size == len(Path(__file__).read_bytes())
    assert time.time() > 0


def test_a_policy_that_revises_links_gets_views_of_queued_ones() -> None:
    links = []

    class Waits:
        def decide(self, view: View) -> Plan:
            assert view.chain is not None
            links.append(view.chain.queued)
            again = view.chain.queued is not None and not view.chain.queued.held
            return Plan((Shorten(limit_s=view.chain.limit_s, reason="not-shorter"),) if again else ())

    check_policy(Waits)
    assert links == [None] * 18, "the first policy gets 6 views, the second each twice"
    with pytest.raises(ContractBroken, match="shortens job 18"):
        check_policy(Waits, revises_queued_link=True)


def queued_view() -> View:
    view = list(example_views())[2]
    assert view.chain is not None
    queued = QueuedLink(job=99, submitted_s=view.now_s - 60, accrues_s=view.now_s - 60, limit_s=7200)
    return replace(view, chain=replace(view.chain, queued=queued))


@pytest.mark.parametrize(
    ("action", "queued", "message"),
    [
        (Hold(reason="too-early"), False, "while no link is queued"),
        (Submit(reason="now"), True, "while job 99 is queued; withdraw that one first"),
        (Shorten(limit_s=7200, reason="gap"), True, "shortens job 99 to 7200 s; its limit is 7200 s"),
    ],
)
def test_revisions_need_a_queued_link(action, queued, message):
    class Revises:
        def decide(self, view):
            return Plan((action,))

    views = [queued_view() if queued else list(example_views())[2]]
    with pytest.raises(ContractBroken, match=message):
        check_policy(Revises, views)


def test_a_queued_link_may_be_held_moved_shortened_and_withdrawn():
    class Revises:
        def decide(self, view):
            return Plan(
                (
                    Hold(reason="a"),
                    Postpone(start_s=view.now_s + 60, reason="b"),
                    Release(reason="c"),
                    Shorten(limit_s=3600, reason="d"),
                    Withdraw(reason="e"),
                    Submit(reason="f"),
                )
            )

    check_policy(Revises, [queued_view()])
