"""Edits of one line of a tree: the best one on some episodes, its effect on others.

An edit moves a threshold, a score or a number by a few steps. All edits are tried on a few of the episodes that they
are chosen on, the best of them on more, and the best of these on all (successive halving, Jamieson and Talwalkar 2016).
The chosen one has the shortest mean time there. Whether it helps is decided on episodes that it was not chosen on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.dag.distilled.small_changes import ROUNDING
from mirage.dag.distilled.tree_policy import parameters_of, scheduler_of
from mirage.dag.distilled.tuning import Episodes, Times
from mirage.distill.editing import change_of, edited
from mirage.distill.rounding import rounded_number
from mirage.distill.tree import Tree
from mirage.distill.tree_lines import Line, lines_of
from mirage.distill.tree_reading import tree_of
from mirage.distill.units import Unit, number_of, written
from mirage.errors import MirageError
from mirage.study.intervals import interval_of_mean

FACTORS = (0.85, 1.2, 0.7, 1.4, 0.5, 2.0, 0.25, 4.0)
"""Factors by which numbers are moved, the nearest first."""

STEPS_OF_POWER = (-0.1, 0.1, -0.2, 0.2, -0.4, 0.4)
"""Steps by which the power of a cap is moved, which may be 0 or less."""

STEPS_OF_COUNT = (-0.5, 0.5, -1.0, 1.0, -2.0, 2.0)
"""Steps by which a small number in a condition is moved, which is mostly a count."""

SMALL = 10
"""Below this, a number in a condition is moved by steps."""

_OTHER_WORD = {"yes": "no", "no": "yes", "usual": "last", "last": "usual"}
_QUESTION = re.compile(r"if (\S+) (<|>=) (.+):")
_FLAG_QUESTION = re.compile(r"if (not )?(\S+):")

ROUNDS = ((8, 48), (3, 12))
"""One in this number of episodes is run with each remaining edit, and this number of edits remain."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one line.

    Attributes:
        change: In words, in the form of ``mirage distill edit``.
        text: The text of the tree after it.
        tree: The tree after it.
    """

    change: str
    text: str
    tree: Tree


def one_line_edits(text: str) -> tuple[Edit, ...]:
    """All edits of a tree's text that give another tree that can run, from top to bottom.

    Raises:
        ConfigurationError: The text is not a tree.
    """
    tree = tree_of(text)
    found: dict[str, Edit] = {}
    for line, old, new in _proposed(text, tree):
        change = change_of(text, line.number, old, new)
        try:
            after, other = edited(text, [change])
            parameters_of(other)
        except MirageError:  # a number beyond its range
            continue
        if other != tree:
            found.setdefault(after, Edit(change, after, other))
    return tuple(found.values())


def _proposed(text: str, tree: Tree) -> Iterator[tuple[Line, str, str]]:
    """Lines, a part of each, and what could replace it."""
    block = ""
    for line in lines_of(text, "tree"):
        block = block if line.indent else line.text
        if block == "settings:" and line.indent:
            key, _, value = (word.strip() for word in line.text.partition(":"))
            for other in _other_values(key, value):
                yield line, line.text, f"{key}: {other}"
        elif (comparison := _QUESTION.fullmatch(line.text)) is not None:
            name, sign, threshold = comparison.groups()
            for number in _other_thresholds(threshold, tree.unit_of(name)):
                yield line, f"{name} {sign} {threshold}", f"{name} {sign} {number}"
        elif (flag := _FLAG_QUESTION.fullmatch(line.text)) is not None:
            yield line, line.text, f"if {'' if flag[1] else 'not '}{flag[2]}:"
        elif ":" not in line.text:
            for score in _other_scores(number_of(line.text, Unit.NUMBER), tree):
                yield line, line.text, score


def _other_values(key: str, value: str) -> Iterator[str]:
    """Other values of a setting: the other of two words, or one of its numbers moved."""
    if value in _OTHER_WORD:
        yield _OTHER_WORD[value]
    elif key.endswith("cap"):
        power, factor = value.split()
        for step in STEPS_OF_POWER:
            yield f"{written(round(number_of(power, Unit.NUMBER) + step, 2), Unit.NUMBER)} {factor}"
        for moved in _scaled(number_of(factor, Unit.NUMBER), Unit.NUMBER):
            yield f"{power} {moved}"
    else:
        unit = Unit.SHARE if value.endswith("%") else Unit.NUMBER
        yield from _scaled(number_of(value, unit), unit)


def _other_thresholds(text: str, unit: Unit) -> Iterator[str]:
    number = number_of(text, unit)
    if unit is Unit.NUMBER and abs(number) < SMALL:
        yield from (written(number + step, unit) for step in STEPS_OF_COUNT)
    elif unit is Unit.SHARE and number <= 1:  # a part of a whole stays at most 1
        yield from (share for share in _scaled(number, unit) if number_of(share, unit) <= 1)
        yield written(1.0, unit)
    else:
        yield from _scaled(number, unit)


def _other_scores(score: float, tree: Tree) -> Iterator[str]:
    """Scores of other leaves, those between them, one above all, and one that skips a stage."""
    levels = sorted({float(leaf.value) for leaf in tree.leaves})
    between = [(low + high) / 2 for low, high in pairwise(levels)]
    for other in (*levels, *between, levels[-1] + 1, -1.0):
        if other != score:
            yield written(other, Unit.NUMBER)


def _scaled(number: float, unit: Unit) -> Iterator[str]:
    for factor in FACTORS:
        yield written(rounded_number(number * factor, unit, ROUNDING), unit)


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """A time before and after an edit, on the same episodes.

    Attributes:
        before_s: Mean over episodes.
        after_s: The same after the edit.
        difference_s: Mean of after minus before.
        low_s: Lower end of its 95 % interval, by Student's t over episodes; None for one episode.
        high_s: Upper end.
        better_seeds: Number of episodes in which the time is shorter after the edit.
        seeds: Number of episodes.
    """

    before_s: float
    after_s: float
    difference_s: float
    low_s: float | None
    high_s: float | None
    better_seeds: int
    seeds: int


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of an edit.

    Attributes:
        mean_jct: The mean time from arrival to end.
        makespan: From the first arrival to the last end.
    """

    mean_jct: PairedTimes
    makespan: PairedTimes


@dataclass(frozen=True, slots=True)
class MendingResult:
    """The best edit and its effects.

    Attributes:
        tried: Number of edits that were tried.
        change: The best one in words; None where no edit changes anything in these episodes.
        chosen: Its effect on the episodes that it was chosen on.
        reported: Its effect on others.
    """

    tried: int
    change: str | None = None
    chosen: Effect | None = None
    reported: Effect | None = None

    @property
    def helps(self) -> bool:
        """Whether jobs end sooner by more than chance, on episodes of the report."""
        high_s = None if self.reported is None else self.reported.mean_jct.high_s
        return high_s is not None and high_s < 0

    def to_json(self) -> dict[str, Any]:
        """The edit in JSON form."""
        return {"tried": self.tried, "change": self.change, "helps": self.helps, **self._effects()}

    def _effects(self) -> dict[str, Any]:
        both = (("chosen", self.chosen), ("reported", self.reported))
        return {name: None if effect is None else asdict(effect) for name, effect in both}


def mended_of(stored: dict[str, Any]) -> MendingResult:
    """The result from its JSON form."""
    chosen, reported = (
        None if each is None else Effect(PairedTimes(**each["mean_jct"]), PairedTimes(**each["makespan"]))
        for each in (stored["chosen"], stored["reported"])
    )
    return MendingResult(stored["tried"], stored["change"], chosen, reported)


def mended(
    text: str,
    choose_on: Episodes,
    report_on: Episodes,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> MendingResult:
    """The best edit of one line of a tree.

    Args:
        text: The text of the tree.
        choose_on: Episodes that it is chosen on.
        report_on: Other episodes, for the report.
        progress: Called with the number of finished trials and the largest possible number.
    """
    tree, edits = tree_of(text), one_line_edits(text)
    left = _promising(tree, edits, choose_on, progress)
    if not left:
        return MendingResult(len(edits))
    before = _times(tree, choose_on)
    effects = [(edit, effect_of(before, _times(edit.tree, choose_on))) for edit in left]
    best, chosen = min(effects, key=lambda pair: pair[1].mean_jct.difference_s)
    reported = effect_of(_times(tree, report_on), _times(best.tree, report_on))
    return MendingResult(len(edits), best.change, chosen, reported)


def _promising(
    tree: Tree, edits: tuple[Edit, ...], episodes: Episodes, progress: Callable[[int, int], None]
) -> list[Edit]:
    """The best edits after some rounds, without those of no effect and duplicates."""
    left, done = list(edits), 0
    of = len(edits) + sum(min(remain, len(edits)) for _, remain in ROUNDS[:-1])
    for one_in, remain in ROUNDS:
        part = slice(None, None, one_in)
        observed = {_times(tree, episodes, part).mean_jct_s.tobytes()}
        ranked: list[tuple[float, int]] = []
        for number, edit in enumerate(left):
            jct_s = _times(edit.tree, episodes, part).mean_jct_s
            if jct_s.tobytes() not in observed:
                observed.add(jct_s.tobytes())
                ranked.append((float(jct_s.mean()), number))
            done += 1
            progress(done, of)
        left = [left[number] for _, number in sorted(ranked)[:remain]]
    return left


def effect_of(before: Times, after: Times) -> Effect:
    """The effect of an edit, from the times before and after it."""
    return Effect(_paired(before.mean_jct_s, after.mean_jct_s), _paired(before.makespan_s, after.makespan_s))


def _paired(before_s: Floats, after_s: Floats) -> PairedTimes:
    differ_s = after_s - before_s
    low_s, high_s = interval_of_mean(differ_s)
    better = int(np.count_nonzero(differ_s < 0))
    return PairedTimes(
        float(before_s.mean()), float(after_s.mean()), float(differ_s.mean()), low_s, high_s, better, len(differ_s)
    )


def _times(tree: Tree, episodes: Episodes, part: slice = slice(None)) -> Times:
    scheduler = scheduler_of(tree, "tree")
    return episodes.times(scheduler.decider, scheduler.parameters, part)
