"""A decision tree as a value; it answers rows, and lists the conditions on the way.

A row is below a split where its value is less than the threshold, and above where it is equal or more. The share of
examples of a leaf and its certainty are comments: they change no answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError, UnknownName, shown

DEEPEST = 64
"""Greatest depth: people read no deeper trees, and recursive functions stay within their limit."""

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
"""Names of features, labels and settings."""

KEYWORDS = frozenset({"if", "else", "not"})


@dataclass(frozen=True, slots=True)
class TreeFeature:
    """A column that a tree may test.

    Attributes:
        name: A word.
        unit: The unit of its values: seconds, parts of one, 0 or 1, or anything.
    """

    name: str
    unit: Unit = Unit.NUMBER

    def __post_init__(self) -> None:
        _check_word("feature", self.name)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An answer.

    Attributes:
        value: A label, or a number.
        share: Part of all examples that reached the leaf; None if not counted.
        certainty: Part of these for which no other answer is better; None if not counted, and for numbers.
    """

    value: str | float
    share: float | None = None
    certainty: float | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A condition, with a node for either result.

    Attributes:
        feature: Name of the feature.
        threshold: Finite; 0.5 for a flag.
        below: For rows whose value is less than the threshold.
        above: For all others.
    """

    feature: str
    threshold: float
    below: Node
    above: Node


Node = Leaf | Split


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound that a row met on its way.

    Attributes:
        feature: Name of the feature.
        threshold: The bound.
        is_below: Whether the value is less than the bound; otherwise it is equal or more.
    """

    feature: str
    threshold: float
    is_below: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree with all that is needed to read it.

    Attributes:
        features: All features that it may test, in the order of the columns of rows.
        answers: The labels that it may answer; the unit of its answers where these are numbers.
        root: The first condition, or the only answer.
        settings: Pairs of a key and a text; their meaning is up to the code that runs the tree.
    """

    features: tuple[TreeFeature, ...]
    answers: tuple[str, ...] | Unit
    root: Node
    settings: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_once("feature", [feature.name for feature in self.features])
        _check_once("setting", [key for key, _ in self.settings])
        for key, text in self.settings:
            _check_word("setting", key)
            if not text or text != text.strip() or "#" in text or len(text.splitlines()) != 1:
                raise ConfigurationError(
                    f"setting {key!r} is {shown(text)}; give one line without # and without spaces around it"
                )
        if not isinstance(self.answers, Unit):
            _check_once("answer", list(self.answers))
            for label in self.answers:
                _check_word("answer", label)
        units = {feature.name: feature.unit for feature in self.features}
        for node, depth in _walk(self.root):
            if depth > DEEPEST:
                raise ConfigurationError(f"the tree is deeper than {DEEPEST} splits; make it smaller")
            if isinstance(node, Leaf):
                self._check_answer(node.value)
            else:
                _check_split(node, units)

    def _check_answer(self, value: str | float) -> None:
        if isinstance(self.answers, Unit):
            if isinstance(value, str) or not math.isfinite(value):
                raise ConfigurationError(f"the answer {shown(value)} is not a finite number")
        elif value not in self.answers:
            raise UnknownName("answer", str(value), self.answers)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, those below a threshold before those above."""
        return tuple(node for node, _ in _walk(self.root) if isinstance(node, Leaf))

    @property
    def depth(self) -> int:
        """Conditions on the longest way to an answer."""
        return max(depth for _, depth in _walk(self.root))

    @property
    def tested(self) -> tuple[str, ...]:
        """The features that its conditions test, in the order of ``features``."""
        used = {node.feature for node, _ in _walk(self.root) if isinstance(node, Split)}
        return tuple(feature.name for feature in self.features if feature.name in used)

    def unit_of(self, name: str) -> Unit:
        """The unit of a feature.

        Raises:
            UnknownName: The tree has no such feature.
        """
        for feature in self.features:
            if feature.name == name:
                return feature.unit
        raise UnknownName("feature", name, [feature.name for feature in self.features])

    def leaf_of(self, row: Mapping[str, float]) -> Leaf:
        """The leaf that answers a row.

        Args:
            row: A value for each feature that is tested on the way.

        Raises:
            ConfigurationError: A value is absent or is not a number.
        """
        node = self.root
        while isinstance(node, Split):
            node = node.below if _value(row, node.feature) < node.threshold else node.above
        return node

    def path_of(self, row: Mapping[str, float]) -> tuple[Condition, ...]:
        """The conditions that lead a row to its leaf, the root's first.

        Raises:
            ConfigurationError: A value is absent or is not a number.
        """
        node, met = self.root, []
        while isinstance(node, Split):
            is_below = _value(row, node.feature) < node.threshold
            met.append(Condition(node.feature, node.threshold, is_below))
            node = node.below if is_below else node.above
        return tuple(met)

    def leaf_numbers(self, rows: Floats) -> Ints:
        """The index in ``leaves`` of the leaf that answers each row.

        Args:
            rows: Shape (n, features), columns in the order of ``features``.

        Returns:
            Shape (n,).

        Raises:
            ConfigurationError: There are more or fewer columns, or a tested value is not a number.
        """
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise ConfigurationError(
                f"rows have the shape {rows.shape}; give one column for each of {len(self.features)} features"
            )
        column = {feature.name: rows[:, k] for k, feature in enumerate(self.features)}
        for name in self.tested:
            if np.isnan(column[name]).any():
                raise ConfigurationError(f"feature {name!r} is not a number in some row; leave such rows out")
        number = np.zeros(len(rows), dtype=np.int64)
        left = [(self.root, np.arange(len(rows)))]
        leaf = 0
        while left:
            node, where = left.pop()
            if isinstance(node, Split):
                is_below = column[node.feature][where] < node.threshold
                left += [(node.above, where[~is_below]), (node.below, where[is_below])]
            else:
                number[where] = leaf
                leaf += 1
        return number

    def codes(self, rows: Floats) -> Ints:
        """The index in ``answers`` that each row gets, of a tree of labels.

        Raises the errors of ``leaf_numbers``.
        """
        if isinstance(self.answers, Unit):
            raise ConfigurationError("this tree answers numbers, not labels; call values instead of codes")
        code = {label: k for k, label in enumerate(self.answers)}
        return np.array([code[str(leaf.value)] for leaf in self.leaves], dtype=np.int64)[self.leaf_numbers(rows)]

    def values(self, rows: Floats) -> Floats:
        """The number that each row gets, of a tree of numbers; raises as ``leaf_numbers`` does."""
        if not isinstance(self.answers, Unit):
            raise ConfigurationError("this tree answers labels, not numbers; call codes instead of values")
        return np.array([leaf.value for leaf in self.leaves], dtype=np.float64)[self.leaf_numbers(rows)]


def merged(tree: Tree, bounds: Mapping[str, tuple[float, float]] | None = None) -> Tree:
    """A tree with the same answers without splits that have no effect.

    These are splits whose two sides give the same answer, and those that a split above them decides.

    Args:
        tree: The tree.
        bounds: For some features, a lower bound (inclusive) and an upper bound (exclusive) of the values of all rows.
    """
    return replace(tree, root=_merged(tree.root, bounds or {}))


def _merged(node: Node, bounds: Mapping[str, tuple[float, float]]) -> Node:
    if isinstance(node, Leaf):
        return node
    low, high = bounds.get(node.feature, (-math.inf, math.inf))
    if node.threshold >= high:
        return _merged(node.below, bounds)
    if node.threshold <= low:
        return _merged(node.above, bounds)
    below = _merged(node.below, {**bounds, node.feature: (low, node.threshold)})
    above = _merged(node.above, {**bounds, node.feature: (node.threshold, high)})
    if isinstance(below, Leaf) and isinstance(above, Leaf) and below.value == above.value:
        return _together(below, above)
    return replace(node, below=below, above=above)


def _together(one: Leaf, other: Leaf) -> Leaf:
    """One leaf in place of two with the same answer."""
    if one.share is None or other.share is None:
        return Leaf(one.value)
    share = one.share + other.share
    if one.certainty is None or other.certainty is None or not share:
        return Leaf(one.value, share)
    return Leaf(one.value, share, (one.share * one.certainty + other.share * other.certainty) / share)


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """All nodes with their depth, depth-first, those below a threshold before those above."""
    left = [(root, 0)]
    while left:
        node, depth = left.pop()
        yield node, depth
        if isinstance(node, Split):
            left += [(node.above, depth + 1), (node.below, depth + 1)]


def _value(row: Mapping[str, float], name: str) -> float:
    value = row.get(name, math.nan)
    if math.isnan(value):
        state = "is not a number" if name in row else "is absent"
        raise ConfigurationError(f"feature {name!r} {state}, but the tree tests it; give its value")
    return value


def _check_split(split: Split, units: Mapping[str, Unit]) -> None:
    if split.feature not in units:
        raise UnknownName("feature", split.feature, units)
    if not math.isfinite(split.threshold):
        raise ConfigurationError(f"the threshold {split.threshold} of {split.feature!r} is not finite; give a number")
    if units[split.feature] is Unit.FLAG and split.threshold != FLAG_THRESHOLD:
        raise ConfigurationError(
            f"the threshold {split.threshold} of {split.feature!r} is not {FLAG_THRESHOLD}: it is a flag, 0 or 1"
        )


def _check_word(kind: str, name: str) -> None:
    if not WORD.fullmatch(name) or name in KEYWORDS:
        raise ConfigurationError(
            f"{shown(name)} is not a name for {kind}s; use letters, digits, _ . and -, a letter first, and not "
            f"{', '.join(sorted(KEYWORDS))}"
        )


def _check_once(kind: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{kind} {twice[0]!r} is named twice; name it once")
