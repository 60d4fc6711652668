"""The executor rule as text, for readers of a tree's picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.distill.units import Unit, written

NO_LIMIT = Cap()
"""A value equal to this one limits nothing, and is not listed."""


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One line of the rule.

    Attributes:
        about: The limited quantity.
        limits: The limit at each range of load; only one where it is the same at all, and none where there is none.
    """

    about: str
    limits: tuple[str, ...] = ()


def rule_words(rule: ExecutorRule) -> tuple[RuleLine, ...]:
    """Describes the rule: a line per limit that one of its caps has; one line without limits."""
    caps = [cap for _, _, cap in rule.ranges]
    said = [_limits(cap) for cap in caps]
    lines = [_line(about, [limits[about] for limits in said], "no limit") for about in said[0]]
    lines = [line for line in lines if line.limits]
    if lines:
        idle = ["" if cap.spare else "executors stay idle" for cap in caps]
        lines.append(_line("where no job has room", idle, "caps are lifted"))
    else:
        lines = [RuleLine("executors", ("all that are free",))]
    few = ["in as many rounds with as few executors" if cap.even else "" for cap in caps]
    usual = ["by usual durations, not by the last task's" if cap.usual else "" for cap in caps]
    lines.append(_line("the tasks of a stage", few, "no limit"))
    lines.append(_line("work counts", usual, "by the last task's duration"))
    return tuple(line for line in lines if line.limits)


def head_words(rule: ExecutorRule) -> RuleLine:
    """Returns the head of the columns: ranges of load, in jobs per executor."""
    if not rule.crowded:
        return RuleLine("executors that a stage gets")
    loads = [written(load, Unit.SHARE) for load, _ in rule.crowded]
    return RuleLine(
        "executors that a stage gets", (f"below {loads[0]} jobs per executor", *(f"from {load} on" for load in loads))
    )


def _line(about: str, limits: Sequence[str], absent: str) -> RuleLine:
    """Builds a line of limits at each range of load; ``absent`` replaces empty ones.

    Where all are empty, the line has none.
    """
    if len(set(limits)) == 1:
        return RuleLine(about, (limits[0],) if limits[0] else ())
    return RuleLine(about, tuple(limit or absent for limit in limits))


def _limits(cap: Cap) -> dict[str, str]:
    """Formats each limit of a cap; empty for those that limit nothing."""
    said = {
        "a job holds at most": (cap.factor < NO_LIMIT.factor, _cap_words(cap)),
        "and of all executors": (cap.most < NO_LIMIT.most, written(cap.most, Unit.SHARE)),
        "the job whose executors these are": (cap.keep != NO_LIMIT.keep, f"{written(cap.keep, Unit.SHARE)} of its cap"),
        "a job that has none": (cap.new != NO_LIMIT.new, f"{written(cap.new, Unit.SHARE)} of its cap"),
        "tasks for each executor": (
            cap.tasks_each != NO_LIMIT.tasks_each,
            f"{written(cap.tasks_each, Unit.NUMBER)} or more",
        ),
        "a stage that cannot start yet": (
            cap.early < NO_LIMIT.early,
            f"{written(cap.early, Unit.SHARE)} of its job's room",
        ),
    }
    return {about: words if limits else "" for about, (limits, words) in said.items()}


def _cap_words(cap: Cap) -> str:
    factor = written(cap.factor, Unit.NUMBER)
    if cap.power == 0:
        return f"{factor} × an equal share"
    return f"{factor} × a share by work to the power {written(cap.power, Unit.NUMBER)}"
