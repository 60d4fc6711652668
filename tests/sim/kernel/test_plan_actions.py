"""Preempt, resize, lend, cancel, wait: the effect of each, and plans that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import PlanInfeasible
from mirage.policy.plan import Action, Cancel, Lend, Plan, Preempt, Reclaim, Resize, Resume, Start, Submit, Wait
from mirage.policy.view import View
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.kernel.arrays import (
    BY_CANCEL,
    BY_ITSELF,
    BY_LIMIT,
    BY_PREEMPTION,
    BY_RESIZE,
    CANCELLED,
    CLOCK,
    ENDED,
    NEVER_S,
)
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.audit import audit
from tests.support.clusters import random_case


class Script:
    """A policy with a plan for given seconds, which records its views."""

    def __init__(self, **plans: tuple[Action, ...]) -> None:
        self.plans = {int(at.removeprefix("at_")): actions for at, actions in plans.items()}
        self.observed: dict[int, View] = {}

    def decide(self, view: View) -> Plan:
        self.observed[view.now_s] = view
        actions = self.plans.pop(view.now_s, ())
        following = min(self.plans, default=None)
        return Plan(actions if following is None else (*actions, Wait(until_s=following)))


def script(cluster: Cluster, rows: list[tuple[int, int, int, int]], **plans: tuple[Action, ...]) -> Simulation:
    """A scripted simulation of jobs (submit_s, run_s, limit_s, nodes)."""
    columns = dict(zip(("submit_s", "elapsed_s", "limit_s", "nodes"), zip(*rows)))
    table = JobTable.build([f"j{k}" for k in range(len(rows))], **columns)
    return Simulation(cluster, workload(table, cluster), Script(**plans))


def audited_run(sim: Simulation) -> list[tuple[int, int, int, int, int]]:
    """Run to the end; what ran, as (id, start_s, end_s, width, why)."""
    while sim.step() < NEVER_S:
        audit(sim)
    audit(sim)
    check_schedule(sim.schedule(), sim.cluster, complete=False)
    return [(int(s.id), int(s.start_s), int(s.end_s), int(s.width), int(s.why)) for s in sim.segments()]


# -- preempting ---------------------------------------------------------------------------------------------------


def test_preemption_holds_the_nodes_while_it_saves_and_loses_time_when_it_resumes() -> None:
    sim = script(
        Cluster.pool(2),
        [(0, 100, 500, 2), (0, 10, 500, 2)],
        at_0=(Start(job=0),),
        at_40=(Preempt(job=0, suspend_s=5, resume_s=7),),
        at_45=(Start(job=1),),
        at_55=(Resume(job=0),),
    )
    sim.advance(42)
    view = sim.view()
    assert view.nodes.free[0, 0] == 0  # still saving
    assert view.running.done_s.tolist() == [40]  # and not working
    assert audited_run(sim) == [
        (0, 0, 45, 2, BY_PREEMPTION),
        (1, 45, 55, 2, BY_ITSELF),
        (0, 55, 55 + 7 + 60, 2, BY_ITSELF),
    ]


def test_a_preempted_job_is_queued_at_its_old_place() -> None:
    sim = script(
        Cluster.pool(1),
        [(0, 100, 500, 1), (1, 10, 500, 1), (2, 10, 500, 1)],
        at_0=(Start(job=0),),
        at_40=(Preempt(job=0),),
    )
    sim.advance(41)
    assert sim.view().pending.id.tolist() == [0, 1, 2]
    assert sim.view().pending.done_s.tolist() == [40, 0, 0]
    assert sim.view().pending.width.tolist() == [0, 0, 0]


def test_work_done_while_resuming_is_none() -> None:
    sim = script(
        Cluster.pool(1),
        [(0, 100, 500, 1)],
        at_0=(Start(job=0),),
        at_10=(Preempt(job=0, resume_s=20),),
        at_15=(Resume(job=0),),
        at_25=(Preempt(job=0),),  # ten seconds into the twenty it needs to resume
        at_30=(Resume(job=0),),
    )
    assert audited_run(sim)[-1] == (0, 30, 120, 1, BY_ITSELF)


def test_a_job_at_its_limit_while_it_saves_is_cut_short_there() -> None:
    sim = script(
        Cluster.pool(1),
        [(0, 100, 50, 1)],
        at_0=(Start(job=0),),
        at_45=(Preempt(job=0, suspend_s=60),),
        at_60=(Resume(job=0),),
    )
    assert audited_run(sim) == [(0, 0, 50, 1, BY_PREEMPTION), (0, 60, 110, 1, BY_LIMIT)]


# -- resizing -----------------------------------------------------------------------------------------------------


def test_a_resized_job_does_its_work_at_the_new_speed() -> None:
    sim = script(
        Cluster.pool(4),
        [(0, 100, 500, 2)],
        at_0=(Start(job=0),),
        at_50=(Resize(job=0, nodes=4, pause_s=3),),  # 50 s of work left, twice as fast
    )
    assert audited_run(sim) == [(0, 0, 50, 2, BY_RESIZE), (0, 50, 50 + 3 + 25, 4, BY_ITSELF)]


def test_a_resized_job_still_takes_the_rest_of_its_time_to_resume() -> None:
    sim = script(
        Cluster.pool(4),
        [(0, 100, 500, 2)],
        at_0=(Start(job=0),),
        at_40=(Preempt(job=0, resume_s=20),),
        at_50=(Resume(job=0),),
        at_55=(Resize(job=0, nodes=4, pause_s=3),),  # fifteen of the twenty are left
    )
    assert audited_run(sim)[-1] == (0, 55, 55 + 15 + 3 + 30, 4, BY_ITSELF)


def test_a_job_may_start_smaller_and_at_a_speed_of_its_own() -> None:
    sim = script(
        Cluster.pool(4),
        [(0, 100, 500, 4), (0, 100, 500, 1)],
        at_0=(Start(job=0, nodes=1), Start(job=1, nodes=2, speed=1.6)),
    )
    assert audited_run(sim) == [(1, 0, 63, 2, BY_ITSELF), (0, 0, 400, 1, BY_ITSELF)]


@settings(max_examples=60, deadline=None)
@given(
    requested=st.integers(1, 9),
    run_s=st.integers(1, 10_000),
    sizes=st.lists(st.tuples(st.integers(1, 200), st.integers(1, 9)), max_size=6),
    shared=st.booleans(),
)
def test_no_work_is_lost_or_made_by_resizing(
    requested: int, run_s: int, sizes: list[tuple[int, int]], shared: bool
) -> None:
    cluster = Cluster.gpu(9, 1, 1) if shared else Cluster((NodeGroup("a", 4), NodeGroup("b", 5)))
    table = JobTable.build([0], submit_s=[0], elapsed_s=[run_s], limit_s=[10**6], nodes=[requested], gpus=[requested])
    sim = Simulation(cluster, workload(table, cluster), Script(at_0=(Start(job=0),)))
    sim.step()
    for after_s, nodes in sizes:
        sim.advance(sim.now_s + after_s)
        if len(sim.view().running):
            sim.apply(Plan((Resize(job=0, nodes=nodes),)))
        audit(sim)
    sim.run()
    segments = sim.segments()
    done = float((segments.width / requested * (segments.end_s - segments.start_s)).sum())
    assert segments.why[-1] == BY_ITSELF
    assert run_s - 1e-5 <= done < run_s + segments.width[-1] / requested
    assert sim.state.fate[0] == ENDED


# -- lending ------------------------------------------------------------------------------------------------------


def inference_and_training() -> Cluster:
    groups = (NodeGroup("inference", 1), NodeGroup("training", 1))
    return Cluster(groups, (Partition("training", ("training",)), Partition("inference", ("inference",))))


def test_a_lent_node_is_used_and_a_reclaimed_one_is_left_at_the_next_end() -> None:
    cluster = inference_and_training()
    rows = [(0, 100, 500, 1)] * 3
    sim = script(
        cluster,
        rows,
        at_0=(Start(job=0), Lend(node=0, partition=0), Start(job=1), Reclaim(node=0, partition=0)),
        at_50=(Preempt(job=0),),
        at_60=(Resume(job=0),),
    )
    sim.advance(10)
    assert sim.view().nodes.free[:, 0].tolist() == [0, 0]
    assert not sim.view().nodes.allowed[0, 0]
    assert len(sim.view().running) == 2  # who runs there goes on
    sim.advance(105)
    assert sim.view().nodes.free[:, 0].tolist() == [1, 0]
    with pytest.raises(PlanInfeasible, match="job j2 lacks 1 free nodes"):
        sim.apply(Plan((Start(job=2),)))  # the training node runs job 0 until 110, the other is not its own any more


# -- cancelling and waiting ---------------------------------------------------------------------------------------


def test_cancelled_jobs_are_gone_wherever_they_stood() -> None:
    cluster = Cluster.pool(1)
    table = JobTable.build(
        ["a", "b", "c", "d"], submit_s=[0] * 4, elapsed_s=[50] * 4, limit_s=[60] * 4, nodes=[1] * 4,
        dependency=["", "", "afterok:a", "afterany:a"],
    )  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster), Script(at_0=(Start(job=0),)))
    sim.advance(10)
    assert sim.view().held.id.tolist() == [2, 3]
    sim.apply(Plan((Cancel(job=1), Cancel(job=0))))
    audit(sim)
    assert sim.view().pending.id.tolist() == [3]  # afterany is content with a cancelled job, afterok never will be
    sim.apply(Plan((Cancel(job=2), Start(job=3))))
    audit(sim)
    assert sim.state.fate[:4].tolist()[:3] == [CANCELLED] * 3
    assert [(s.id, s.end_s, s.why) for s in sim.segments()] == [(0, 10, BY_CANCEL)]


def test_a_policy_that_waits_is_called_again_at_its_time() -> None:
    sim = script(Cluster.pool(1), [(0, 10, 20, 1)], at_7=(), at_30=(Start(job=0),))
    audited_run(sim)
    assert sim.policy.observed.keys() >= {0, 7, 30, 40}  # type: ignore[union-attr]
    assert sim.schedule().start_s.tolist() == [30]


def test_a_replay_ends_with_its_last_job_though_the_policy_names_a_further_time() -> None:
    class Clockwork:
        def decide(self, view: View) -> Plan:
            starts = tuple(Start(job=int(job)) for job in view.pending.id[:1])
            return Plan((*starts, Wait(until_s=view.now_s + 7)))

    table = JobTable.build([1, 2], submit_s=[0, 50], elapsed_s=[10, 5], limit_s=[20, 20], nodes=[1, 1])
    assert simulate(Cluster.pool(1), table, Clockwork()).end_s.tolist() == [10, 55]


def test_cancelling_under_a_discipline_lets_the_next_job_start_at_once() -> None:
    cluster = Cluster.pool(1)
    table = JobTable.build([1, 2], submit_s=[0, 0], elapsed_s=[100, 5], limit_s=[200, 200], nodes=[1, 1])
    for name in ("fcfs", "easy", "conservative", "slurm"):
        sim = Simulation(cluster, workload(table, cluster), name)
        sim.advance(30)
        sim.apply(Plan((Cancel(job=0),)))
        assert sim.run().start_s.tolist() == [0, 30]


# -- what cannot be done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Start(job=2), "job j2 lacks 1 free nodes of its kind"),
        (Start(job=1, nodes=9), "job j1 lacks 7 free nodes"),
        (Start(job=1, nodes=-1), r"nodes=-1 in Start\(.*; give more than 0, or None"),
        (Start(job=1, nodes=0), "nodes=0 in Start"),
        (Start(job=1, speed=0.0), r"speed=0\.0 in Start"),
        (Resize(job=0, nodes=3, speed=float("nan")), "speed=nan in Resize"),
        (Start(job=0), "job j0 is not pending"),
        (Start(job=10**6), "no job 1000000 is known"),
        (Resume(job=0), "job j0 is not pending"),
        (Preempt(job=1), "job j1 is not running"),
        (Preempt(job=0, suspend_s=-1), "job j0: -1 is not a valid value"),
        (Resize(job=1, nodes=1), "job j1 is not running"),
        (Resize(job=0, nodes=0), "job j0: 0 is not a valid value"),
        (Resize(job=0, nodes=1, pause_s=-4), "job j0: -4 is not a valid value"),
        (Resize(job=0, nodes=5), "job j0 lacks 1 free nodes"),
        (Cancel(job=77), "no job 77 is known"),
        (Lend(node=5, partition=0), "there is no node 5, or no partition 0"),
        (Reclaim(node=0, partition=3), "there is no node 0, or no partition 3"),
        (Submit(), "does not support the action Submit"),
        (Wait(until_s=10), r"^Wait\(until_s=10\) is not later than now, 10; name a later second$"),
    ],
)
def test_an_infeasible_action_names_the_job_and_leaves_everything_as_it_was(action: Action, message: str) -> None:
    sim = script(Cluster.pool(4), [(0, 100, 500, 2), (0, 10, 20, 1), (0, 10, 20, 3)], at_0=(Start(job=0),))
    sim.advance(10)
    before = {name: np.array(part) for name, part in sim.state._asdict().items()}
    with pytest.raises(PlanInfeasible, match=message):
        sim.apply(Plan((action,)))
    for name, part in sim.state._asdict().items():
        if name == "clock":
            changed = {field for field in CLOCK.names if part[field] != before[name][field]}
            assert changed <= {"fault", "fault_id", "fault_value", "ended_since"}  # look anew: always safe
        else:
            assert part.tobytes() == before[name].tobytes(), name
    audit(sim)


@pytest.mark.parametrize("limit", [Limit(jobs=1), Limit(nodes=2), Limit("account", nodes=2), Limit("all", gpus=4)])
def test_limits_bind_policies_too(limit: Limit) -> None:
    cluster = Cluster((NodeGroup("node", 4, gpus=2),), limits=(Limit(jobs=9), limit))
    sim = script(cluster, [(0, 100, 500, 2), (0, 10, 20, 1)], at_0=(Start(job=0),))
    sim.advance(1)
    with pytest.raises(PlanInfeasible, match=f"^job j1 would go over the limit of {limit}$"):
        sim.apply(Plan((Start(job=1),)))
    if limit.jobs is None:
        with pytest.raises(PlanInfeasible, match=f"^job j0 would go over the limit of {limit}$"):
            sim.apply(Plan((Resize(job=0, nodes=3),)))


def test_an_impossible_plan_raises_in_the_middle_of_a_run() -> None:
    sim = script(Cluster.pool(4), [(0, 100, 500, 2)], at_50=(Resize(job=0, nodes=2),))
    with pytest.raises(PlanInfeasible, match="job j0 is not running"):
        sim.run()


# -- anything goes ------------------------------------------------------------------------------------------------


class Restless:
    """Does anything, feasible or not, to anybody."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def decide(self, view: View) -> Plan:
        rng = self.rng
        everybody = [*view.pending.id, *view.running.id, *view.held.id]
        if not everybody or rng.random() < 0.1:
            return Plan()
        job = int(rng.choice(everybody))
        speed = None if rng.random() < 0.7 else float(rng.choice([0.3, 1.7]))
        return Plan(
            (
                rng.choice(
                    [
                        Start(job=job),
                        Start(job=job, nodes=int(rng.integers(1, 5)), speed=speed),
                        Preempt(job=job, suspend_s=int(rng.choice([0, 3])), resume_s=int(rng.choice([0, 4]))),
                        Resize(job=job, nodes=int(rng.integers(1, 5)), speed=speed, pause_s=int(rng.choice([0, 2]))),
                        Cancel(job=job) if rng.random() < 0.2 else Start(job=job),
                        Wait(until_s=view.now_s + int(rng.integers(1, 20))),
                    ]
                ),
            )
        )


class Timid:
    """Calls another policy and tries its plan on a fork first, to drop what is infeasible."""

    def __init__(self, policy: Restless) -> None:
        self.policy, self.sim = policy, None

    def decide(self, view: View) -> Plan:
        for _ in range(4):
            plan = self.policy.decide(view)
            try:
                self.sim.fork().apply(plan)  # type: ignore[attr-defined]
            except PlanInfeasible:
                continue
            wake = () if len(view.running) + len(view.pending) == 0 else (Wait(until_s=view.now_s + 10),)
            return Plan((*plan.actions, *wake))
        return Plan()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shared=st.booleans(), waits=st.booleans())
def test_the_books_balance_whatever_a_policy_does(seed: int, shared: bool, waits: bool) -> None:
    groups = (NodeGroup("a", 3, 2, 4), NodeGroup("b", 2, 1, 6))
    cluster = Cluster(groups, (Partition("p0"), Partition("p1", ("b",))), shared_nodes=shared)
    case = random_case(cluster, 20, seed, waits)
    policy = Timid(Restless(seed))
    sim = Simulation(cluster, case.jobs, policy)
    policy.sim = sim  # type: ignore[assignment]
    for _ in range(300):
        if sim.step() >= NEVER_S:
            break
        audit(sim)
    check_schedule(sim.schedule(), cluster, complete=False)
