"""The executor rule in words, for people who read a picture of a tree and not its settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.distill.units import Unit, written

NO_LIMIT = Cap()
"""What does not differ from it limits nothing, and is not told."""


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One thing that the rule says.

    Attributes:
        about: What is limited.
        quiet: The limit.
        crowded: The limit where the system is crowded; empty where it is the same, or there is no such case.
    """

    about: str
    quiet: str
    crowded: str = ""


def rule_words(rule: ExecutorRule) -> tuple[RuleLine, ...]:
    """What the rule says, a line for each limit that either of its caps has; one line where there is none."""
    lines = [line for line in _lines(rule) if line.quiet or line.crowded]
    if not lines:
        lines = [RuleLine("executors", "all that are free")]
    elif not rule.spare:
        lines.append(RuleLine("where no job has room", "executors stay idle"))
    if rule.even:
        lines.append(RuleLine("the tasks of a stage", "in as many rounds with as few executors"))
    if rule.usual:
        lines.append(RuleLine("work counts", "by usual durations, not by the last task's"))
    return tuple(lines)


def head_words(rule: ExecutorRule) -> RuleLine:
    """What the columns are: below and from the number of jobs per executor where the system is crowded."""
    if rule.crowded_from == math.inf:
        return RuleLine("executors that a stage gets", "")
    crowded = written(rule.crowded_from, Unit.SHARE)
    return RuleLine("executors that a stage gets", f"below {crowded} jobs per executor", f"from {crowded} on")


def _lines(rule: ExecutorRule) -> Iterator[RuleLine]:
    quiet, crowded = _limits(rule.quiet), _limits(rule.crowded)
    for about, limit in quiet.items():
        other = limit if rule.crowded_from == math.inf else crowded[about]
        if limit == other:
            yield RuleLine(about, limit)
        else:
            yield RuleLine(about, limit or "no limit", other or "no limit")


def _limits(cap: Cap) -> dict[str, str]:
    """Each limit of a cap in words; empty for those that limit nothing."""
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
