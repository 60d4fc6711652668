"""Converts a plan to the engine's own actions."""

from __future__ import annotations

from mirage.errors import PlanInfeasible
from mirage.policy.plan import Action, Cancel, Lend, Plan, Preempt, Reclaim, Resize, Start, Wait
from mirage.sim.kernel import plan_actions as actions
from mirage.sim.kernel.arrays import NIL, NO_JOB, Scratch


def write_plan(plan: Plan, scratch: Scratch, now_s: int) -> int:
    """Write a plan's actions into ``scratch.plan``; returns their number.

    Raises:
        PlanInfeasible: The plan has an action this simulation does not support, a time that has passed, or too many
            actions.
    """
    n = 0
    for action in plan.actions:
        if isinstance(action, Wait):
            if action.until_s is None:
                continue
            if action.until_s <= now_s:
                raise PlanInfeasible(
                    f"Wait(until_s={action.until_s}) is not later than now, {now_s}; name a later second"
                )
        if n >= len(scratch.plan):
            raise PlanInfeasible(
                f"a plan of {len(plan.actions)} actions; at most {len(scratch.plan)} are allowed at once"
            )
        row = scratch.plan[n]
        row.kind, row.id, row.nodes, row.speed = NIL, NO_JOB, 0, 0.0
        row.suspend_s = row.resume_s = 0
        row.bin = row.partition = NIL
        _write(action, row)
        n += 1
    return n


def _write(action: Action, row: object) -> None:
    fields: dict[str, float | int]
    match action:
        case Start():
            fields = {
                "kind": actions.START,
                "id": action.job,
                "nodes": _given(action, "nodes"),
                "speed": _given(action, "speed"),
            }
        case Preempt():
            fields = {"kind": actions.PREEMPT, "id": action.job}
            fields |= {"suspend_s": action.suspend_s, "resume_s": action.resume_s}
        case Resize():
            fields = {"kind": actions.RESIZE, "id": action.job, "nodes": action.nodes}
            fields |= {"speed": _given(action, "speed"), "resume_s": action.pause_s}
        case Cancel():
            fields = {"kind": actions.CANCEL, "id": action.job}
        case Lend():
            fields = {"kind": actions.MOVE, "bin": action.node, "partition": action.partition, "nodes": 1}
        case Reclaim():
            fields = {"kind": actions.MOVE, "bin": action.node, "partition": action.partition, "nodes": 0}
        case Wait():
            fields = {"kind": actions.WAKE, "id": action.until_s or 0}
        case _:
            raise PlanInfeasible(
                f"a simulated cluster does not support the action {type(action).__name__}; links are submitted by the "
                "chain that called the policy"
            )
    for name, value in fields.items():
        setattr(row, name, value)


def _given(action: Start | Resize, name: str) -> float:
    """Returns nodes or speed of an action; 0 if it gives none."""
    value: float | None = getattr(action, name)
    if value is None:
        return 0
    if not value > 0:
        raise PlanInfeasible(f"{name}={value} in {action}; give more than 0, or None")
    return value
