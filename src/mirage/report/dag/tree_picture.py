"""Picture of a tree that schedules stages, with the rule for numbers of executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from mirage.dag.distilled.executor_rule import Cap, ExecutorRule, rule_of
from mirage.dag.distilled.tree_policy import check_features
from mirage.distill.tree import Condition, Leaf, Node, Split, Tree
from mirage.distill.tree_text import answer_text, condition_text, per_cent
from mirage.distill.units import Unit, written
from mirage.report.picture import Bar, Drawn, Label, Moved, Picture, Stroke, line, text_px

MARGIN_PX, LINE_PX = 16.0, 22.0
NOTES_PX, NOTE_LINE_PX = 48.0, 18.0
"""Baseline of the first reading note, and distance between the notes."""

LEAST_PX = 620.0
"""Minimum width of the content, which leaves room for the notes above a small tree."""

HOW = "Of all stages that may be picked, the one with the highest score gets executors."
TIES = "Ties go to the job with less work."
ALONE = "A score below 0 leaves a stage alone."
SHARES = "In brackets: share of the candidates that reach a leaf."

ROW_PX, BOX_PX, PAD_PX = 34.0, 24.0, 9.0
GAP_PX = 46.0
"""Distance between two columns; the answers of a question are on its lines there."""


@dataclass(frozen=True, slots=True)
class TreeSheet:
    """A tree and the text around it.

    Attributes:
        notes: Reading notes above it.
        layout: The tree.
        top: Upper edge of the tree, in pixels.
        features: Name and meaning of each feature in the tree.
        meanings_column: Left edge of the meanings.
        meanings_top: Baseline of the first meaning.
        rule: The lines of the executor rule, a head first.
        rule_columns: Left edges of their columns.
        rule_top: Baseline of the first line of the rule.
        width: In pixels.
        height: In pixels.
    """

    notes: tuple[str, ...]
    layout: TreeLayout
    top: float
    features: tuple[tuple[str, str], ...]
    meanings_column: float
    meanings_top: float
    rule: tuple[RuleLine, ...]
    rule_columns: tuple[float, ...]
    rule_top: float
    width: float
    height: float


def sheet_of(tree: Tree) -> TreeSheet:
    """Lays out the sheet of a tree.

    Raises:
        UnknownName: It uses a feature that no stage scheduler has.
        ConfigurationError: Its settings are not a valid rule.
    """
    check_features(tree)
    layout, executors, notes = laid_out(tree), rule_of(dict(tree.settings)), _notes(tree)
    rule = (head_words(executors), *rule_words(executors))
    columns = zip_longest(*((one.about, *one.limits) for one in rule), fillvalue="")
    ends = tuple(accumulate(max(text_px(text) for text in column) + 24 for column in columns))
    top = NOTES_PX + NOTE_LINE_PX * len(notes)
    features = tuple((name.replace("_", " "), FEATURE_WORDS[name]) for name in tree.tested)
    meanings_top = top + layout.height + 32
    rule_top = meanings_top + LINE_PX * len(features) + (18 if features else 0)
    return TreeSheet(
        notes,
        layout,
        top,
        features,
        max((text_px(name) for name, _ in features), default=0.0) + 24,
        meanings_top,
        rule,
        (0.0, *ends[:-1]),
        rule_top,
        max(LEAST_PX, layout.width, ends[-1]) + 2 * MARGIN_PX,
        rule_top + LINE_PX * len(rule),
    )


def _notes(tree: Tree) -> tuple[str, ...]:
    more = [ALONE] if any(float(leaf.value) < 0 for leaf in tree.leaves) else []
    more += [SHARES] if any(leaf.share is not None for leaf in tree.leaves) else []
    return (HOW, " ".join([TIES, *more]))


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
    limits_of_caps = [_limits(cap) for cap in caps]
    lines = [_line(about, [limits[about] for limits in limits_of_caps], "no limit") for about in limits_of_caps[0]]
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
    entries = {
        "a job holds at most": (cap.factor < NO_LIMIT.factor, _cap_words(cap)),
        "and of all executors": (cap.most < NO_LIMIT.most, written(cap.most, Unit.SHARE)),
        "the job whose executors these are": (
            cap.source_share != NO_LIMIT.source_share,
            f"{written(cap.source_share, Unit.SHARE)} of its cap",
        ),
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
    return {about: words if limits else "" for about, (limits, words) in entries.items()}


def _cap_words(cap: Cap) -> str:
    factor = written(cap.factor, Unit.NUMBER)
    if cap.power == 0:
        return f"{factor} × an equal share"
    return f"{factor} × a share by work to the power {written(cap.power, Unit.NUMBER)}"


FEATURE_WORDS = {
    "executors": "in the cluster",
    "jobs": "in the system",
    "crowding": "jobs per executor",
    "backlog": "work of all jobs per executor",
    "free": "executors that need a destination, as a share of all",
    "own": "the executors that need a destination belong to this job",
    "new": "no executor works for the job or is on its way",
    "holds": "executors at the job, on their way and promised",
    "work": "of the job, in executor-seconds",
    "work_times_least": "work of the job, over the least of any job's",
    "work_share": "work of the job, of that of all jobs",
    "drains_in": "work of the job over the executors that it holds",
    "age": "since the job arrived",
    "job_path": "the job's longest path from here",
    "tasks_left": "of the job, not started",
    "stages_left": "of the job, not finished",
    "choices": "stages of the job that may be picked",
    "ready": "the stage's tasks can start at once",
    "starts_in": "about when the stage's tasks can start",
    "tasks": "of the stage, that no executor is promised for",
    "task_time": "of the stage's task started last",
    "stage_work": "of the stage, in executor-seconds",
    "stage_path": "the longest path from the stage's start to the job's end",
    "slack": "by which the stage's path to the end is shorter than the longest",
    "work_below": "of the stage and all that come after it",
    "here": "executors at the stage, on their way and promised",
    "before": "stages of the job that may be picked and come first in its order",
    "smaller": "stages of the job that may be picked and have less work",
    "children": "stages that need the stage's output",
}
"""Indexed by the name of a feature; ``mirage.dag.distilled.candidate_columns`` computes them."""


def tree_picture(tree: Tree, heading: str) -> Picture:
    """Draws a tree: questions from left to right, and the executor rule below."""
    sheet = sheet_of(tree)
    parts: list[Drawn] = [Bar(0, 0, sheet.width, sheet.height, "card")]
    parts.append(Label(heading, MARGIN_PX, 28, style="strong", size=16))
    parts += [Label(text, MARGIN_PX, NOTES_PX + NOTE_LINE_PX * k) for k, text in enumerate(sheet.notes)]
    parts.append(Moved([*_tree(sheet)], MARGIN_PX, sheet.top))
    for k, words in enumerate(sheet.features):
        y = sheet.meanings_top + k * LINE_PX
        parts += [Label(text, MARGIN_PX + x, y) for text, x in zip(words, (0.0, sheet.meanings_column), strict=True)]
    parts.append(Moved([*_rule(sheet)], MARGIN_PX, sheet.rule_top))
    described = f"{heading}: a tree of {len(tree.leaves)} leaves"
    return Picture(sheet.width, sheet.height, parts, described)


def _tree(sheet: TreeSheet) -> list[Drawn]:
    boxes, parts = sheet.layout.boxes, list[Drawn]()
    for one in boxes:
        if one.above >= 0:
            parts += [Stroke(bends(boxes[one.above], one), "lead"), Label(one.answer, one.x - 24, one.y - 5)]
    for one in boxes:
        class_ = "lead-dot" if not one.is_leaf else "overlap-band" if one.is_left_alone else "area"
        parts.append(Bar(one.x, one.y - BOX_PX / 2, one.width, BOX_PX, class_, rx=12 if one.is_leaf else 4))
        parts.append(Label(one.text, one.x + PAD_PX, one.y + 4, style="strong" if one.is_leaf else "ink"))
    return parts


def _rule(sheet: TreeSheet) -> list[Drawn]:
    parts: list[Drawn] = [line(0, -20, sheet.width - 2 * MARGIN_PX, -20, "grid")]
    for k, one in enumerate(sheet.rule):
        for column, (x, text) in enumerate(zip(sheet.rule_columns, (one.about, *one.limits))):
            class_ = "strong" if k == 0 else "ink" if column else ""
            parts.append(Label(text, x, k * LINE_PX, style=class_))
    return parts


@dataclass(frozen=True, slots=True)
class TreeBox:
    """A question or an answer at its place.

    Attributes:
        text: Its text.
        is_leaf: Whether it is an answer.
        is_left_alone: Whether it is an answer below 0, which leaves a stage alone.
        x: Left edge, in pixels.
        y: Middle, in pixels.
        width: In pixels.
        above: Index of the question that leads here; -1 for the first.
        answer: The answer to that question.
    """

    text: str
    is_leaf: bool
    is_left_alone: bool
    x: float
    y: float
    width: float
    above: int
    answer: str


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Boxes, each after the question that leads to it, and their total size."""

    boxes: tuple[TreeBox, ...]
    width: float
    height: float


@dataclass
class _Entry:
    node: Node
    depth: int
    above: int
    answer: str
    text: str
    y: float = 0.0


def laid_out(tree: Tree) -> TreeLayout:
    """Lays out all questions and answers of a tree, true branches above false ones."""
    entries: list[_Entry] = []
    _list(tree, tree.root, 0, -1, "", entries)
    row = 0
    for entry in entries:
        if isinstance(entry.node, Leaf):
            entry.y = (row + 0.5) * ROW_PX
            row += 1
    for k in range(len(entries) - 1, -1, -1):
        if isinstance(entries[k].node, Split):
            under = [entry.y for entry in entries if entry.above == k]
            entries[k].y = sum(under) / len(under)
    widths = _widths(entries)
    left = [0.0]
    for width in widths:
        left.append(left[-1] + width + GAP_PX)
    boxes = tuple(
        TreeBox(
            entry.text,
            isinstance(entry.node, Leaf),
            isinstance(entry.node, Leaf) and isinstance(entry.node.value, float) and entry.node.value < 0,
            left[entry.depth],
            entry.y,
            text_px(entry.text) + 2 * PAD_PX,
            entry.above,
            entry.answer,
        )
        for entry in entries
    )
    return TreeLayout(boxes, max(box.x + box.width for box in boxes), row * ROW_PX)


def _list(tree: Tree, node: Node, depth: int, above: int, answer: str, entries: list[_Entry]) -> None:
    """Appends a node and its subtree; for a flag the side where it is set comes first."""
    if isinstance(node, Leaf):
        text = answer_text(node.value, tree)
        words = text if node.share is None else f"{text}  ({per_cent(node.share)})"
        entries.append(_Entry(node, depth, above, answer, words))
        return
    here = len(entries)
    is_flag = condition_text(Condition(node.feature, node.threshold, True), tree).startswith("not ")
    question = condition_text(Condition(node.feature, node.threshold, not is_flag), tree).replace("_", " ")
    entries.append(_Entry(node, depth, above, answer, f"{question}?"))
    sides = (node.above, node.below) if is_flag else (node.below, node.above)
    for branch, side in zip(("yes", "no"), sides, strict=True):
        _list(tree, side, depth + 1, here, branch, entries)


def _widths(entries: list[_Entry]) -> list[float]:
    """Returns the width of each column: that of its widest question or answer."""
    depth = max(entry.depth for entry in entries)
    return [max(text_px(e.text) + 2 * PAD_PX for e in entries if e.depth == column) for column in range(depth + 1)]


def bends(above: TreeBox, one: TreeBox) -> list[tuple[float, float]]:
    """Returns the line from a question to a following box: across, down or up, and across."""
    begin = above.x + above.width
    turn = max(begin, one.x - 30)
    return [(begin, above.y), (turn, above.y), (turn, one.y), (one.x, one.y)]
