"""Changes to a tree in words, one a line: ``work < 20min -> work < 30min``, and what they change in its text.

A change names what stands in exactly one line of the text, and what shall stand there instead. Indents, remarks and
everything else stay as they are. Only what a fit counted at a leaf (``# 40 % of examples, 97 % certain``) is dropped
where the leaf is changed, as it was said of the old answer.
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
"""The remarks that ``tree_text`` writes behind leaves."""

_LINE = re.compile(r"(\d+)\s*:\s*(.+)")


def edited(text: str, changes: Sequence[str], source: str = "tree") -> tuple[str, Tree]:
    """The text of a tree after some changes, and the tree that it says.

    Args:
        text: The text of a tree.
        changes: Each ``OLD -> NEW``, or ``LINE: OLD -> NEW`` where OLD stands in several lines.
        source: Where the text comes from, for messages.

    Raises:
        ConfigurationError: A change is none, OLD stands in no line or in several, or what comes out is no tree.
    """
    lines = text.splitlines()
    for change in changes:
        number, new = _changed(lines, change, source)
        lines[number] = new
    whole = "\n".join(lines) + "\n"
    return whole, tree_of(whole, source)


def change_of(text: str, number: int, old: str, new: str) -> str:
    """The change by which a line says something else, as ``edited`` reads it.

    Args:
        text: The text of a tree.
        number: Of the line, counted from 1.
        old: What stands in it; the number is told where it stands in others, too.
        new: What shall stand there instead.
    """
    where = [line for line in text.splitlines() if _whole_words(old).search(_said(line))]
    change = f"{old} {ARROW} {new}"
    return change if len(where) == 1 else f"{number}: {change}"


def difference(before: str, after: str, source: str = "tree") -> str:
    """What differs between two texts, line by line, as ``diff -u`` shows it."""
    told = difflib.unified_diff(before.splitlines(), after.splitlines(), source, f"{source} (edited)", n=2, lineterm="")
    return "".join(f"{line}\n" for line in told)


def _changed(lines: Sequence[str], change: str, source: str) -> tuple[int, str]:
    """Which line a change is about, counted from 0, and what it says then."""
    old, arrow, new = (word.strip() for word in change.partition(ARROW))
    if not arrow or not old or not new:
        raise ConfigurationError(f"{shown(change.strip())} is no change; write 'work < 20min {ARROW} work < 30min'")
    where = range(len(lines))
    asked = _LINE.fullmatch(old)
    if asked is not None:
        number, old = int(asked[1]), asked[2]
        if number - 1 not in where:
            raise ConfigurationError(f"{source}: there is no line {number}; the tree has {len(lines)} lines")
        where = range(number - 1, number)
    found = [k for k in where if _whole_words(old).search(_said(lines[k]))]
    if not found and asked is not None:
        there = shown(_said(lines[where[0]]))
        raise ConfigurationError(f"{source}: line {asked[1]} says {there}, and {shown(old)} is not in it")
    if not found:
        raise ConfigurationError(f"{source}: {shown(old)} stands in no line; write it as the tree does")
    if len(found) > 1:
        told = ", ".join(str(k + 1) for k in found[:8])
        raise ConfigurationError(
            f"{source}: {shown(old)} stands in the lines {told}; say which, as in '{found[0] + 1}: {old} {ARROW} {new}'"
        )
    line = lines[found[0]]
    said = _said(line)
    indent = line[: len(line) - len(line.lstrip())]
    now = _whole_words(old).sub(lambda _: new, said, count=1)
    return found[0], line if now == said else _with_remark(indent + now, line)


def _said(line: str) -> str:
    """A line without its indent and its remark."""
    return line.partition("#")[0].strip()


def _with_remark(new: str, line: str) -> str:
    """A new line with the remark of the old one, which stays in its column where there is room for it."""
    before, mark, remark = line.partition("#")
    if not mark or "#" in new or _COUNTED.fullmatch(mark + remark.rstrip()):
        return new
    blanks = len(before) - len(before.rstrip())
    return (new + " " * min(blanks, 2)).ljust(len(before)) + mark + remark


def _whole_words(old: str) -> re.Pattern[str]:
    """Finds words where they are not parts of longer ones, and numbers with their sign."""
    return re.compile(rf"(?<![\w.+-]){re.escape(old)}(?![\w.])")
