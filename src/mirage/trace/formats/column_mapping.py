"""Mapping of the columns of a CSV file to those of the job table.

The form is ``submit_s=submit_time,limit_s=timelimit[min]``: a column of the job table, then one of the file, with its
unit in brackets if it needs one. ``nodes==1`` gives every row the same value. A TOML file can express the same, one
column per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.text_file import read_toml_file
from mirage.trace.formats.column_cells import WAIT, check_unit
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS

TARGETS = ("job_id", *INT_COLUMNS, *LABEL_COLUMNS, WAIT)
"""Columns that can be mapped: those of the job table, and the wait, which gives the start."""

HOW = "write it as submit_s=submit_time,limit_s=timelimit[min],nodes==1, or name a TOML file"

_ENTRY = re.compile(r"(?:\[[^\]]*\]|[^,\[]|\[(?![^\]]*\]))+")
"""An entry between commas; a comma in brackets belongs to a unit."""

_WITH_UNIT = re.compile(r"(.+)\[([^\[\]]*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a column of the job table.

    Attributes:
        column: Name in the file; empty for a constant.
        unit: Of its values; empty for the default.
        constant: The value of every row, in the form of a cell.
        text: The text it was read from, which may itself be the name of a column.
    """

    column: str
    unit: str = ""
    constant: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Sources of the mapped columns of the job table."""

    sources: Mapping[str, Source]

    @property
    def columns(self) -> list[str]:
        """Columns of the file in the mapping."""
        return [source.column for source in self.sources.values() if source.column]


def parse_columns(text: str) -> ColumnMap:
    """Parses the mapping of an option: entries between commas, or ``@file.toml``.

    Raises:
        UnknownName: The job table has no such column.
        ConfigurationError: The text is not a mapping, names a column twice or an unknown unit; or the file cannot be
            read.
    """
    word = text.strip()
    if word.startswith("@") or word.lower().endswith(".toml"):
        return read_mapping(word.removeprefix("@"))
    pairs = []
    for entry in filter(str.strip, _ENTRY.findall(word)):
        target, sign, source = entry.partition("=")
        if not sign or not source.strip():
            raise ConfigurationError(f"--columns: {shown(entry.strip())} has no column = source; {HOW}")
        pairs.append((target.strip(), source.strip()))
    return _mapping(pairs, "--columns")


def read_mapping(path: str) -> ColumnMap:
    """Reads a mapping from TOML: ``limit_s = "timelimit[min]"``, constant ``nodes = 1``.

    Raises:
        UnknownName: The job table has no such column.
        ConfigurationError: The file cannot be read, or holds something else.
    """
    if not path:
        raise ConfigurationError(f"--columns @ names no file; {HOW}, @FILE")
    declared = read_toml_file(path, 'name a TOML file with a line for each column, such as submit_s = "submit_time"')
    return _mapping([(target, _source_text(path, target, value)) for target, value in declared.items()], path)


def _source_text(path: str, target: str, value: Any) -> str:
    """Returns the text of a source; a number is a constant."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"={value}"
    raise ConfigurationError(f'{path}: {target} is {shown(value)}; write "column", "column[unit]" or a number')


def _mapping(pairs: Iterable[tuple[str, str]], origin: str) -> ColumnMap:
    sources: dict[str, Source] = {}
    for target, words in pairs:
        if target not in TARGETS:
            raise UnknownName("column of the job table", target, TARGETS)
        if target in sources:
            raise ConfigurationError(f"{origin} names {target} twice; give each column of the job table one source")
        sources[target] = _source(target, words)
    if not sources:
        raise ConfigurationError(f"{origin} maps no column; {HOW}")
    if WAIT in sources and ("start_s" in sources or "submit_s" not in sources):
        raise ConfigurationError(f"{WAIT} is added to submit_s and gives start_s; name submit_s, and not start_s")
    return ColumnMap(sources)


def _source(target: str, words: str) -> Source:
    if words.startswith("="):
        return Source("", constant=words[1:].strip(), text=words)
    found = _WITH_UNIT.fullmatch(words)
    if not found:
        return Source(words, text=words)
    if not found[2].strip():
        raise ConfigurationError(f"{shown(words)} has an empty unit; leave out the brackets, or name one")
    check_unit(target, found[2].strip())
    return Source(found[1].strip(), found[2].strip(), text=words)
