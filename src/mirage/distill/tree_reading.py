"""Trees from texts that people wrote or changed; errors give line, column and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from mirage.distill.tree import DEEPEST, Leaf, Node, Split, Tree, TreeFeature
from mirage.distill.tree_lines import Line, TreeLineReader
from mirage.distill.tree_text import VERSION
from mirage.distill.units import FLAG_THRESHOLD, Unit, number_of
from mirage.errors import MirageError, UnknownName, shown

T = TypeVar("T")

_CONDITION = re.compile(r"(\S+?)\s*(<=|>=|==|!=|<|>|=)\s*(.*)")
_FLAG = re.compile(r"(?:(not)\s+)?(\S+)")
_IF = re.compile(r"if(?=[\s:]|$)\s*(.*)")
_ELSE = re.compile(r"(else|elif)(?=[\s:]|$)")


def tree_of(text: str, source: str = "tree") -> Tree:
    """A tree from its text, see ``tree_text``.

    It also accepts ``if load >= 80 %:`` and ``if weekend:``, which ``text_of`` does not write.

    Args:
        text: The whole text.
        source: The origin of the text, for messages.

    Raises:
        ConfigurationError: The text is not a tree; the message starts with ``source:line:column:``.
    """
    lines = TreeLineReader(text, source)
    tree = _header(lines)
    root = _node(lines, tree, lines.take("the first condition or an answer"), 0)
    if (line := lines.next) is not None:
        line.fail("the tree is complete here; remove this line, or indent it below a condition")
    return Tree(tree.features, tree.answers, root, tree.settings)


def _header(lines: TreeLineReader) -> Tree:
    """All before the first condition, as a tree with a placeholder answer."""
    begin = lines.take(f"'tree: {VERSION}'")
    if not begin.text.startswith("tree"):
        begin.fail(
            f"found {shown(begin.text)} where 'tree: {VERSION}' is expected; a tree begins with this line, then "
            "'features:', then 'answers:' or 'values:'"
        )
    first, version, at = _entry(begin, "tree")
    if version != str(VERSION):
        first.fail(f"version {shown(version)} is unknown; this Mirage reads version {VERSION}", at)
    top, rest, at = _entry(lines.take("'features:'"), "features")
    if rest:
        top.fail("give each feature a line of its own, indented below 'features:'", at)
    features = [_feature(line) for line in lines.take_block(top)]
    _check_once([(feature.name, line) for feature, line in features], "feature")
    line = lines.take("'answers:' or 'values:'")
    answers = _answers(line)
    settings: list[tuple[str, str]] = []
    if (head := lines.next) is not None and head.text.startswith("settings:"):
        top, rest, at = _entry(lines.take("'settings:'"), "settings")
        if rest:
            top.fail("give each setting a line of its own, indented below 'settings:'", at)
        pairs = [(_pair(row), row) for row in lines.take_block(top)]
        _check_once([(key, row) for (key, _), row in pairs], "setting")
        settings = [pair for pair, _ in pairs]
    any_answer = Leaf(0.0 if isinstance(answers, Unit) else answers[0])
    return _placed(line, 0, lambda: Tree(tuple(f for f, _ in features), answers, any_answer, tuple(settings)))


def _entry(line: Line, *keys: str) -> tuple[Line, str, int]:
    """A line ``key: value`` with one of some keys, its value and the column of the value."""
    key, colon, value = line.text.partition(":")
    if line.indent or not colon or key.rstrip() not in keys:
        line.fail(f"found {shown(line.text)} where {' or '.join(repr(known + ':') for known in keys)} is expected")
    return line, value.strip(), len(line.text) - len(value.lstrip())


def _feature(line: Line) -> tuple[TreeFeature, Line]:
    name, colon, unit = line.text.partition(":")
    at = len(line.text) - len(unit.lstrip())
    if not colon:
        line.fail(f"{shown(line.text)} is not a feature; write its name and unit, as in 'remaining: duration'")
    if unit.strip() not in list(Unit):
        _placed(line, at, lambda: _unknown("unit", unit.strip(), [known.value for known in Unit]))
    return _placed(line, 0, lambda: TreeFeature(name.rstrip(), Unit(unit.strip()))), line


def _answers(line: Line) -> tuple[str, ...] | Unit:
    _, text, at = _entry(line, "answers", "values")
    if line.text.startswith("answers"):
        labels = tuple(label.strip() for label in text.split(","))
        _placed(line, at, lambda: Tree((), labels, Leaf(labels[0])))
        return labels
    if text not in list(Unit):
        _placed(line, at, lambda: _unknown("unit", text, [known.value for known in Unit]))
    return Unit(text)


def _pair(line: Line) -> tuple[str, str]:
    key, colon, text = line.text.partition(":")
    if not colon or not text.strip():
        line.fail(f"{shown(line.text)} is not a setting; write 'key: value'")
    pair = key.rstrip(), text.strip()
    _placed(line, 0, lambda: Tree((), Unit.NUMBER, Leaf(0.0), (pair,)))
    return pair


def _check_once(named: list[tuple[str, Line]], kind: str) -> None:
    first: dict[str, Line] = {}
    for name, line in named:
        if name in first:
            line.fail(f"{kind} {name!r} is already in line {first[name].number}; name it once")
        first[name] = line


def _node(lines: TreeLineReader, tree: Tree, line: Line, depth: int) -> Node:
    """The answer in a line, or the condition with all that belongs to it."""
    if depth > DEEPEST:
        line.fail(f"the tree is deeper than {DEEPEST} conditions; make it smaller")
    if depth == 0 and line.indent:
        line.fail("the tree must start without spaces before it; remove them")
    if (word := _ELSE.match(line.text)) is not None:
        line.fail(f"found {word[1]!r} where 'if' or an answer is expected; after 'else:', write 'if' in a new line")
    condition = _IF.match(line.text)
    if condition is None:
        return Leaf(_answer(line, tree))
    feature, threshold, is_below = _condition(line, condition[1], condition.start(1), tree)
    then = _node(lines, tree, lines.take_deeper(line, "what follows from the condition"), depth + 1)
    other = lines.take(f"'else:' of line {line.number}")
    if other.indent != line.indent or re.sub(r"\s", "", other.text) != "else:":
        other.fail(
            f"found {shown(other.text)} where 'else:' of line {line.number} is expected, indented by {line.indent}; "
            "each condition has one answer or one condition on either side"
        )
    otherwise = _node(lines, tree, lines.take_deeper(other, "what follows otherwise"), depth + 1)
    below, above = (then, otherwise) if is_below else (otherwise, then)
    return Split(feature, threshold, below, above)


def _condition(line: Line, text: str, at: int, tree: Tree) -> tuple[str, float, bool]:
    """Feature, threshold, and whether the condition holds below it."""
    if not text.endswith(":"):
        line.fail("the condition does not end with ':'; add it", len(line.text))
    code = text[:-1].rstrip()
    compared = _CONDITION.fullmatch(code)
    if compared is None:
        flag = _FLAG.fullmatch(code)
        if flag is None:
            line.fail(f"{shown(code)} is not a condition; write 'feature < threshold'", at)
        if _placed(line, at + flag.start(2), lambda: tree.unit_of(flag[2])) is not Unit.FLAG:
            line.fail(f"{flag[2]!r} is not a flag; write '{flag[2]} < threshold'", at + flag.start(2))
        return flag[2], FLAG_THRESHOLD, flag[1] is not None
    name, sign, number = compared.groups()
    unit = _placed(line, at, lambda: tree.unit_of(name))
    if unit is Unit.FLAG:
        line.fail(f"{name!r} is a flag and cannot be compared; write 'if {name}:' or 'if not {name}:'", at)
    if sign not in ("<", ">="):
        line.fail(f"operator {sign!r} is unknown; write '<' or '>='", at + compared.start(2))
    threshold = _placed(line, at + compared.start(3), lambda: number_of(number, unit))
    return name, threshold, sign == "<"


def _answer(line: Line, tree: Tree) -> str | float:
    unit = tree.answers
    if isinstance(unit, Unit):
        return _placed(line, 0, lambda: number_of(line.text, unit))
    if line.text not in unit:
        _placed(line, 0, lambda: _unknown("answer", line.text, list(unit)))
    return line.text


def _unknown(kind: str, name: str, known: list[str]) -> None:
    raise UnknownName(kind, name, known)


def _placed(line: Line, at: int, make: Callable[[], T]) -> T:
    """Calls a function; its errors get the position in front."""
    try:
        return make()
    except MirageError as error:
        line.fail(str(error), at)
