"""Formats of ``squeue`` and ``sinfo``: fields, their widths and alignment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirage.lab.commands.invocation import Failed
from mirage.lab.commands.output_columns import QUEUE, QUEUE_LETTERS

_WORD = re.compile(r"%(\.?)(\d*)([A-Za-z])")
_FIELD = re.compile(r"([A-Za-z_-]+)(?::(\.?)(\d*)(.*))?", re.DOTALL)

Part = tuple[str, bool, int, str]
"""Field (empty for plain text), whether it is right-aligned, its width (0: natural width), text that follows."""


def cell(part: Part, value: str) -> str:
    """Returns a value with its width and alignment."""
    _, right, width, after = part
    if width:
        value = f"{value[:width]:>{width}}" if right else f"{value[:width]:<{width}}"
    return value + after


def read_fields(text: str) -> list[Part]:
    """Parses ``squeue -O``: ``name[:[.][width][suffix]],…``, 20 wide by default."""
    parts = []
    for word in text.split(","):
        found = _FIELD.fullmatch(word)
        name = found[1].lower() if found else word
        if found is None or name not in QUEUE:
            raise Failed(f"squeue: error: Invalid job format specification: {word}")
        width = 20 if found[2] is None else int(found[3] or "0")
        parts.append((name, bool(found[2]), width, found[4] or ""))
    return parts


def read_format(text: str) -> list[Part]:
    """Parses ``squeue -o``: ``%[.][width]letter`` and plain text between."""
    parts = read_letters(text, QUEUE_LETTERS)
    return [(QUEUE_LETTERS.get(part[0], ""), *part[1:]) if part[0] else part for part in parts]


def read_letters(text: str, known: Mapping[str, object]) -> list[Part]:
    """Parses ``%[.][width]letter``; unknown letters remain as text."""
    parts: list[Part] = []
    at = 0
    for found in _WORD.finditer(text):
        plain = text[at : found.start()]
        parts += [("", False, 0, plain)] if plain else []
        shown = found[3] in known
        parts.append((found[3], bool(found[1]), int(found[2] or "0"), "") if shown else ("", False, 0, found[0]))
        at = found.end()
    return [*parts, ("", False, 0, text[at:])]
