"""The list ``jobs`` of a JSON document, element by element, with their first lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mirage.errors import LineError, TraceError
from mirage.trace.formats.read_report import ReadTally

_WHITESPACE = " \t\r\n"
_PROGRESS_RECORDS = 512
_LONGEST_INTEGER = 20


def _integer(digits: str) -> float:
    """Parses an integer; one that is too long for any field becomes a float.

    Then only its record is rejected, not the whole document.
    """
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def job_records(text: str, tally: ReadTally) -> Iterator[tuple[int, Any]]:
    """Yields every element of the list of jobs, with the number of its first line.

    The document is either the list itself or an object with the list under ``jobs``. Elements are decoded one by one:
    if the document is damaged, the elements before the damage are not lost.

    Args:
        text: The document.
        tally: Receives the damage, if there is any.

    Raises:
        TraceError: The document has no list of jobs; or reading is strict and the document is damaged.
    """
    position = _list_begin(text, tally)
    line, counted_to = 1, 0
    while True:
        position = _skip(text, position, _WHITESPACE + ",")
        if text[position : position + 1] == "]":
            return
        line += text.count("\n", counted_to, position)
        counted_to = position
        try:
            job, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            tally.lines += 1
            tally.reject(line, LineError("not JSON", str(error), "the file is damaged or cut short"))
            return
        if not tally.lines % _PROGRESS_RECORDS:
            tally.progress(position, len(text))
        yield line, job


def _list_begin(text: str, tally: ReadTally) -> int:
    """Returns the position after the opening bracket of the list of jobs."""
    position = _skip(text, 0, _WHITESPACE)
    if text[position : position + 1] == "[":
        return position + 1
    try:
        while text[position] in "{,":
            key, position = _DECODER.raw_decode(text, _skip(text, position + 1, _WHITESPACE))
            position = _skip(text, position, _WHITESPACE + ":")
            if key == "jobs" and text[position] == "[":
                return position + 1
            _, position = _DECODER.raw_decode(text, position)
            position = _skip(text, position, _WHITESPACE)
    except (ValueError, IndexError, RecursionError) as error:
        line = text.count("\n", 0, position) + 1
        raise TraceError(f"{tally.path}:{line}: not JSON: {error}; the file is damaged or cut short") from error
    raise TraceError(f'{tally.path}:1: no list "jobs" in this JSON; make it with sacct --json')


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position
