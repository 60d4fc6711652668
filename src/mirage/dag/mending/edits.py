"""Edits of one line of a tree: each threshold, score and number moved by a few steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mirage.dag.distilled.small_changes import ROUNDING
from mirage.dag.distilled.tree_policy import parameters_of
from mirage.distill.editing import change_of, edited
from mirage.distill.rounding import rounded_number
from mirage.distill.tree import Tree
from mirage.distill.tree_lines import Line, lines_of
from mirage.distill.tree_reading import tree_of
from mirage.distill.units import Unit, number_of, written
from mirage.errors import MirageError

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
