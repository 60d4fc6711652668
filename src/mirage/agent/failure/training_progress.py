"""The progress of a chain: the step of its progress file, or the age of its checkpoints."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import iglob
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from mirage.agent.failure.log_patterns import tail_of

SAVED, STEP, TIME = "saved", "step", "time"

MOST_FILES = 10_000
"""Number of files of a pattern that are visited."""

_TEMPORARY = {".tmp", ".temp", ".part", ".partial"}
"""Ends of the names of checkpoints that are being written."""

_ENTRY = re.compile(r'"(step|saved)": ?\d')


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a chain at an instant.

    Attributes:
        kind: ``saved`` or ``step``, of the progress file of ``mirage.hooks``, or ``time``, of the newest checkpoint.
        value: The highest step, or seconds since 1970.
    """

    kind: str
    value: int

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"

    @classmethod
    def of(cls, text: str) -> TrainingProgress | None:
        """The progress that was stored as a text; None for an empty one."""
        kind, _, value = text.partition(" ")
        return cls(kind, int(value)) if value else None


def matching_files(pattern: str, directory: str) -> Iterator[Path]:
    """The files and folders of a pattern, without those that have a temporary name."""
    names = islice(iglob(os.path.join(directory, os.path.expanduser(pattern)), recursive=True), MOST_FILES)
    return (path for path in map(Path, names) if path.suffix not in _TEMPORARY)


def read_progress(pattern: str, directory: str) -> TrainingProgress | None:
    """The progress in files; None where none is there.

    A file with entries of ``mirage.hooks`` has a step: the highest saved one, else the highest one. Of all other files
    and folders, the latest modification counts; in a folder that of its entries, too.

    Args:
        pattern: Path of a file or a folder, with ``*``, ``?`` and ``**`` as in a shell. Temporary names, such as
            ``step_11.tmp``, are left out.
        directory: The folder of a relative path.

    Raises:
        OSError: A file cannot be read.
    """
    steps: dict[str, list[int]] = {SAVED: [], STEP: []}
    newest_s = -1
    for path in matching_files(pattern, directory):
        if path.is_dir():
            entries = islice(path.iterdir(), MOST_FILES)
            newest_s = max(newest_s, *(int(one.stat().st_mtime) for one in (path, *entries)))
            continue
        for entry in _entries(tail_of(path, 0) or ""):
            for kind, known in steps.items():
                if type(entry.get(kind)) is int:  # no bool
                    known.append(entry[kind])
        newest_s = max(newest_s, int(path.stat().st_mtime))
    for kind, known in steps.items():
        if known:
            return TrainingProgress(kind, max(known))
    return TrainingProgress(TIME, newest_s) if newest_s >= 0 else None


def _entries(text: str) -> Iterator[dict[str, Any]]:
    """The entries of a progress file with a step."""
    for line in text.splitlines():
        if _ENTRY.search(line):
            try:
                entry = json.loads(line)
            except ValueError:  # the first line of a tail may be cut
                continue
            if isinstance(entry, dict):
                yield entry


def stands_still(known: Sequence[TrainingProgress], links: int) -> bool:
    """Whether the last links have made no progress; other kinds of progress do not count.

    Args:
        known: The progress at the end of each link, in order.
        links: Number of the last links; at least one link before them is needed.
    """
    values = [one.value for one in takewhile(lambda one: one.kind == known[-1].kind, reversed(known))]
    return len(values) > links and max(values[:links]) <= max(values[links:])
