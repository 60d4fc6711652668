"""Run of a whole chain in a simulated cluster, from the first link to a horizon.

An episode asks what *one* hand-over would have cost; a run asks what a service lives through that is handed over again
and again, each time from where the last hand-over left it.
"""

from __future__ import annotations

from mirage.duration import MINUTE_S
from mirage.job_state import MISSING
from mirage.policy.contract import Policy
from mirage.policy.plan import Plan
from mirage.policy.view import Chain
from mirage.provision.chain import Link
from mirage.provision.chain_record import ChainRun, Decision, LinkRecord
from mirage.provision.evaluation.candidate import quiet_until_s
from mirage.sim.simulation import Simulation


def run_chain(sim: Simulation, link: Link, policy: Policy, until_s: int, *, step_s: int = 30 * MINUTE_S) -> ChainRun:
    """Keep a chain alive until a horizon.

    The first link is submitted now. While a link runs the policy is asked every ``step_s`` whether to submit the next
    one; when it ends, the next is submitted at once if it has not been. A link that waits is left to wait.

    Args:
        sim: The cluster, from now on; it is used up.
        link: What every link is like.
        policy: Asked with a view whose ``chain`` says how the present link stands.
        until_s: The horizon.
        step_s: Time between decisions.

    Raises:
        JobRefused: A link can never run here.
    """
    begin_s = sim.now_s
    links: list[LinkRecord] = []
    decisions: list[Decision] = []
    while sim.now_s < until_s:
        present = _next_link(sim, link, len(links), until_s)
        links.append(present)
        if present.started_s == MISSING:
            break
        _await_submission(sim, link, policy, present, min(present.ends_s, until_s), step_s, decisions)
    return ChainRun(link, begin_s, until_s, tuple(links), tuple(decisions))


def _next_link(sim: Simulation, link: Link, number: int, until_s: int) -> LinkRecord:
    """Submit a link now and wait until it starts or the horizon is reached."""
    submitted_s = sim.now_s
    job = sim.inject(nodes=link.nodes, limit_s=link.limit_s)
    started_s = sim.run_until_started(job, until_s)
    if started_s is None:
        return LinkRecord(number, job, submitted_s, MISSING, MISSING)
    return LinkRecord(number, job, submitted_s, started_s, started_s + link.limit_s)


def _await_submission(
    sim: Simulation,
    link: Link,
    policy: Policy,
    present: LinkRecord,
    latest_s: int,
    step_s: int,
    decisions: list[Decision],
) -> None:
    """Ask at every step until the policy submits or the link ends; time stands there then."""
    chain = Chain(link.nodes, link.limit_s, present.job, present.submitted_s, present.started_s, present.ends_s, step_s)
    quiet_s = MISSING
    for now_s in range(present.started_s + step_s, latest_s, step_s):
        if now_s < quiet_s:
            continue
        sim.approach(now_s)
        plan = policy.decide(sim.view(chain))
        decisions.append(_decision(plan, now_s, present))
        if plan.submits:
            return
        quiet_s = quiet_until_s(plan.actions)
    sim.approach(latest_s)
    if latest_s == present.ends_s:
        decisions.append(Decision(latest_s, present.number, 0, True, "ended", {}))


def _decision(plan: Plan, now_s: int, present: LinkRecord) -> Decision:
    reason = "; ".join(action.reason for action in plan.actions if action.reason)
    return Decision(now_s, present.number, present.ends_s - now_s, plan.submits, reason, dict(plan.estimate))
