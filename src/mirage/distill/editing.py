"""Changes to a tree in words, one a line: ``work < 20min -> work < 30min``, and the diff.

A change names text in exactly one line of the tree, and the text that replaces it. Indents, comments and everything
else stay as they are. Only the counts of a fit at a leaf (``# 40 % of examples, 97 % certain``) are dropped where the
leaf is changed, because they describe the old answer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.errors import ConfigurationError, shown

ARROW = "->"

_COUNTED = re.compile(r"#\s*(under )?\d+ % (of examples|certain)(,.*)?")
"""The comments that ``tree_text`` writes after leaves."""

_LINE = re.compile(r"(\d+)\s*:\s*(.+)")


def edited(text: str, changes: Sequence[str], source: str = "tree") -> tuple[str, Tree]:
    """Applies changes to the text of a tree; the new text and its tree.

    Args:
        text: The text of a tree.
        changes: Each ``OLD -> NEW``, or ``LINE: OLD -> NEW`` where OLD is in several lines.
        source: Where the text comes from, for messages.

    Raises:
        ConfigurationError: A change is malformed, OLD is in no line or in several, or the result is no tree.
    """
    lines = text.splitlines()
    for change in changes:
        number, new = _changed(lines, change, source)
        lines[number] = new
    whole = "\n".join(lines) + "\n"
    return whole, tree_of(whole, source)


def change_of(text: str, number: int, old: str, new: str) -> str:
    """The change that replaces text in a line, in the form that ``edited`` reads.

    Args:
        text: The text of a tree.
        number: Of the line, counted from 1.
        old: Text in the line; the number is added where other lines contain it, too.
        new: The text that replaces it.
    """
    where = [line for line in text.splitlines() if _whole_words(old).search(_code_of(line))]
    change = f"{old} {ARROW} {new}"
    return change if len(where) == 1 else f"{number}: {change}"


def difference(before: str, after: str, source: str = "tree") -> str:
    """The differences between two texts, line by line, in the form of ``diff -u``."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), source, f"{source} (edited)", n=2, lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)


def _changed(lines: Sequence[str], change: str, source: str) -> tuple[int, str]:
    """The line that a change affects, counted from 0, and its new text."""
    old, arrow, new = (word.strip() for word in change.partition(ARROW))
    if not arrow or not old or not new:
        raise ConfigurationError(f"{shown(change.strip())} is not a change; write 'work < 20min {ARROW} work < 30min'")
    where = range(len(lines))
    numbered = _LINE.fullmatch(old)
    if numbered is not None:
        number, old = int(numbered[1]), numbered[2]
        if number - 1 not in where:
            raise ConfigurationError(f"{source}: there is no line {number}; the tree has {len(lines)} lines")
        where = range(number - 1, number)
    found = [k for k in where if _whole_words(old).search(_code_of(lines[k]))]
    if not found and numbered is not None:
        there = shown(_code_of(lines[where[0]]))
        raise ConfigurationError(f"{source}: line {numbered[1]} is {there} and does not contain {shown(old)}")
    if not found:
        raise ConfigurationError(f"{source}: {shown(old)} is in no line; copy it from the tree")
    if len(found) > 1:
        numbers = ", ".join(str(k + 1) for k in found[:8])
        raise ConfigurationError(
            f"{source}: {shown(old)} is in the lines {numbers}; give the line, as in "
            f"'{found[0] + 1}: {old} {ARROW} {new}'"
        )
    line = lines[found[0]]
    code = _code_of(line)
    indent = line[: len(line) - len(line.lstrip())]
    now = _whole_words(old).sub(lambda _: new, code, count=1)
    return found[0], line if now == code else _with_remark(indent + now, line)


def _code_of(line: str) -> str:
    """A line without its indent and its comment."""
    return line.partition("#")[0].strip()


def _with_remark(new: str, line: str) -> str:
    """A new line with the comment of the old one, in the same column if there is space."""
    before, mark, remark = line.partition("#")
    if not mark or "#" in new or _COUNTED.fullmatch(mark + remark.rstrip()):
        return new
    blanks = len(before) - len(before.rstrip())
    return (new + " " * min(blanks, 2)).ljust(len(before)) + mark + remark


def _whole_words(old: str) -> re.Pattern[str]:
    """A pattern that matches whole words, and numbers with their sign."""
    return re.compile(rf"(?<![\w.+-]){re.escape(old)}(?![\w.])")
