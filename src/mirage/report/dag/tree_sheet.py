"""Sheet of a tree's picture: reading notes, the tree, and the executor rule below."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, zip_longest

from mirage.dag.distilled.executor_rule import rule_of
from mirage.dag.distilled.tree_policy import check_features
from mirage.distill.tree import Tree
from mirage.report.dag.feature_words import FEATURE_WORDS
from mirage.report.dag.rule_words import RuleLine, head_words, rule_words
from mirage.report.dag.tree_layout import Layout, laid_out
from mirage.report.svg import text_px

MARGIN_PX, LINE_PX = 16.0, 22.0
SAID_PX, SAID_LINE_PX = 48.0, 18.0
"""Baseline of the first reading note, and distance between the notes."""

LEAST_PX = 620.0
"""Minimum width of the content, which leaves room for the notes above a small tree."""

HOW = "Of all stages that may be picked, the one with the highest score gets executors."
TIES = "Ties go to the job with less work."
ALONE = "A score below 0 leaves a stage alone."
SHARES = "In brackets: share of the candidates that reach a leaf."


@dataclass(frozen=True, slots=True)
class Sheet:
    """A tree and the text around it.

    Attributes:
        said: Reading notes above it.
        layout: The tree.
        top: Upper edge of the tree, in pixels.
        asked: Name and meaning of each feature in the tree.
        asked_column: Left edge of the meanings.
        asked_top: Baseline of the first meaning.
        rule: The lines of the executor rule, a head first.
        rule_columns: Left edges of their columns.
        rule_top: Baseline of the first line of the rule.
        width: In pixels.
        height: In pixels.
    """

    said: tuple[str, ...]
    layout: Layout
    top: float
    asked: tuple[tuple[str, str], ...]
    asked_column: float
    asked_top: float
    rule: tuple[RuleLine, ...]
    rule_columns: tuple[float, ...]
    rule_top: float
    width: float
    height: float


def sheet_of(tree: Tree) -> Sheet:
    """Lays out the sheet of a tree.

    Raises:
        UnknownName: It uses a feature that no stage scheduler has.
        ConfigurationError: Its settings are not a valid rule.
    """
    check_features(tree)
    layout, executors, said = laid_out(tree), rule_of(dict(tree.settings)), _said(tree)
    rule = (head_words(executors), *rule_words(executors))
    columns = zip_longest(*((one.about, *one.limits) for one in rule), fillvalue="")
    ends = tuple(accumulate(max(text_px(text) for text in column) + 24 for column in columns))
    top = SAID_PX + SAID_LINE_PX * len(said)
    asked = tuple((name.replace("_", " "), FEATURE_WORDS[name]) for name in tree.asked)
    asked_top = top + layout.height + 32
    rule_top = asked_top + LINE_PX * len(asked) + (18 if asked else 0)
    return Sheet(
        said,
        layout,
        top,
        asked,
        max((text_px(name) for name, _ in asked), default=0.0) + 24,
        asked_top,
        rule,
        (0.0, *ends[:-1]),
        rule_top,
        max(LEAST_PX, layout.width, ends[-1]) + 2 * MARGIN_PX,
        rule_top + LINE_PX * len(rule),
    )


def _said(tree: Tree) -> tuple[str, ...]:
    more = [ALONE] if any(float(leaf.value) < 0 for leaf in tree.leaves) else []
    more += [SHARES] if any(leaf.share is not None for leaf in tree.leaves) else []
    return (HOW, " ".join([TIES, *more]))
