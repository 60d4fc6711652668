"""Patterns for the output of a failed link, as data, and the search for a cause."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.real_time import file_time_on_this_clock_s
from mirage.text_file import parse_toml, read_text_file

TAIL_BYTES = 256 * 1024
"""Length of the end of a file that is searched."""

CLOCKS_DIFFER_S = 60
"""The clock of a file server may differ from the controller's by this much."""

LONGEST_LINE, LONGEST_QUOTE = 2_000, 300
"""Characters of a line that are searched, and quoted: a progress bar may write megabytes without a line end."""

_LINE_ENDS = re.compile(r"[\r\n]+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")

_FIELDS = ("verdict", "regex", "meaning", "source")


class Verdict(StrEnum):
    """The consequence of a cause for the next links."""

    EXCLUDE = "exclude"  # they do not run on the node
    STOP = "stop"  # another start cannot help: the chain is paused
    CONTINUE = "continue"  # another start is the remedy


@dataclass(frozen=True, slots=True)
class LogPattern:
    """A known cause of a failure.

    Attributes:
        regex: Is searched in each line.
        meaning: The cause in words.
        source: The document or program that the text of the line comes from.
    """

    name: str
    verdict: Verdict
    regex: re.Pattern[str]
    meaning: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """The cause of a failure: a pattern, and the line that it matches."""

    pattern: LogPattern
    line: str

    def __str__(self) -> str:
        more = "…" if len(self.line) > LONGEST_QUOTE else ""
        return f"{self.pattern.name} ({self.pattern.meaning}): {self.line[:LONGEST_QUOTE]}{more}"


def builtin_patterns() -> tuple[LogPattern, ...]:
    """The patterns of ``log_patterns.toml``."""
    text = (files("mirage.agent.failure") / "log_patterns.toml").read_text(encoding="utf-8")
    return parse_patterns(text, "log_patterns.toml")


def read_patterns(own: Path) -> tuple[LogPattern, ...]:
    """The built-in patterns and those of a user's file, which replace others by name.

    Args:
        own: The user's file, which may be missing.

    Raises:
        ConfigurationError: The file cannot be read, or a pattern in it is not valid.
    """
    known = {pattern.name: pattern for pattern in builtin_patterns()}
    try:
        text = read_text_file(own, "make it readable, or remove it", at_rest=True)
    except FileNotFoundError:
        return tuple(known.values())
    return tuple((known | {pattern.name: pattern for pattern in parse_patterns(text, str(own))}).values())


def parse_patterns(text: str, where: str) -> tuple[LogPattern, ...]:
    """The patterns in a TOML text: tables with verdict, regex, meaning and source.

    Args:
        where: Name of the file, for messages.

    Raises:
        ConfigurationError: A table has another form.
    """
    return tuple(_pattern(name, table, where) for name, table in parse_toml(text, where).items())


def _pattern(name: str, table: object, where: str) -> LogPattern:
    if not isinstance(table, dict) or not {"verdict", "regex"} <= table.keys() <= set(_FIELDS):
        raise ConfigurationError(f"{where}: {shown(name)} is not a table with verdict, regex, meaning and source")
    if not all(isinstance(value, str) and value for value in table.values()):
        raise ConfigurationError(f"{where}: {shown(name)} has an empty value, or one that is not a text")
    if table["verdict"] not in list(Verdict):
        known = ", ".join(Verdict)
        raise ConfigurationError(f"{where}: {shown(name)} has the verdict {shown(table['verdict'])}; known: {known}")
    try:
        regex = re.compile(table["regex"])
    except re.error as error:
        raise ConfigurationError(f"{where}: {shown(name)} has no valid regular expression: {error}") from error
    return LogPattern(name, Verdict(table["verdict"]), regex, table.get("meaning", name), table.get("source", ""))


def find_cause(text: str, patterns: Sequence[LogPattern]) -> FailureCause | None:
    """The cause of a failure in the output of a link; None where no pattern matches.

    The last line with the verdict ``exclude`` or ``stop`` decides. A lost connection or a time-out follows from other
    faults, so a line with the verdict ``continue`` counts only where there is no other.
    """
    mild: FailureCause | None = None
    for raw in reversed(_LINE_ENDS.split(text)):
        line = _CONTROL.sub("", raw[:LONGEST_LINE]).strip()
        matching = [pattern for pattern in patterns if pattern.regex.search(line)] if line else []
        for pattern in matching:
            if pattern.verdict is not Verdict.CONTINUE:
                return FailureCause(pattern, line)
        if matching and mild is None:
            mild = FailureCause(matching[0], line)
    return mild


def tail_of(path: Path, since_s: int) -> str | None:
    """The end of a regular file that was written after an instant; None where there is none.

    Bytes that are not UTF-8 become replacement characters. A pipe or a device is not read.

    Args:
        since_s: The start of the link, on this process's clock: an older file is the output of another one.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        if file_time_on_this_clock_s(found.st_mtime) < since_s - CLOCKS_DIFFER_S:
            return None
        return os.pread(descriptor, TAIL_BYTES, max(found.st_size - TAIL_BYTES, 0)).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
