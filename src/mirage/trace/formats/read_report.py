"""Tally of a reader: what was read and what was skipped, and the report on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mirage.errors import ConfigurationError, LineError, TraceError, first_of, quantity

OnError = Literal["strict", "skip"]
Unit = Literal["line", "record"]
Progress = Callable[[int, int], None]
"""Called at intervals with the amount read and the total: bytes, or characters."""

_COUNTS = ("header", "comment", "blank", "continued", "steps", "merged", "jobs")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Lines skipped for one reason.

    Attributes:
        count: Their number.
        first_line: Number of the first, from 1.
    """

    count: int
    first_line: int


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Result for every line (or record) of a trace.

    Attributes:
        path: The file as it was requested.
        format: Name of the format it was read as.
        unit: ``line`` for text, ``record`` if records have no lines of their own (JSON, Parquet, CSV).
        lines: Lines or records in the file; the sum of all counts below.
        header: Lines that describe the file or name its columns.
        comment: Comment lines.
        blank: Empty lines.
        continued: Further lines of a row that contains line ends.
        steps: Parts of a job (Slurm's steps, partial executions of SWF), which are not jobs.
        merged: Further rows of one attempt of a job, which is one row of the table.
        jobs: Rows of the table.
        skipped: Unreadable lines or records, by reason.
        notes: Number of readable but unusual rows, by kind.
        metadata: Header fields, verbatim (SWF: ``MaxProcs``, ``UnixStartTime`` …).
    """

    path: str
    format: str
    unit: Unit
    lines: int
    header: int
    comment: int
    blank: int
    continued: int
    steps: int
    merged: int
    jobs: int
    skipped: Mapping[str, Skipped]
    notes: Mapping[str, int]
    metadata: Mapping[str, str]

    @property
    def skipped_total(self) -> int:
        """Number of skipped lines, for any reason."""
        return sum(entry.count for entry in self.skipped.values())

    @property
    def accounted(self) -> int:
        """Sum of all counts; equal to ``lines`` unless a reader has a bug."""
        counted: list[int] = [getattr(self, name) for name in _COUNTS]
        return sum(counted) + self.skipped_total

    def skipped_in_words(self) -> str:
        """Describes the number of skipped lines and the reasons."""
        reasons = [f"{e.count:,} × {why}, the first in line {e.first_line}" for why, e in self.skipped.items()]
        return f"{quantity(self.skipped_total, self.unit)} skipped ({'; '.join(reasons)})"

    def complaints(self) -> list[str]:
        """Returns one sentence for every reason lines were skipped, and for every note."""
        skipped = [
            f"{self.path}:{entry.first_line}: {reason} (the first of {entry.count:,} skipped for this)"
            for reason, entry in self.skipped.items()
        ]
        return skipped + [f"{self.path}: {count:,} × {what}" for what, count in self.notes.items()]

    def to_json(self) -> dict[str, Any]:
        """Returns the report as plain values."""
        return {
            "path": self.path,
            "format": self.format,
            "unit": self.unit,
            **{name: getattr(self, name) for name in ("lines", *_COUNTS)},
            "skipped": {
                reason: {"count": entry.count, "first_line": entry.first_line} for reason, entry in self.skipped.items()
            },
            "notes": dict(self.notes),
            "metadata": dict(self.metadata),
        }


def _no_progress(done: int, total: int) -> None:
    """Does nothing."""


@dataclass(slots=True)
class ReadTally:
    """Running tally of one reading; readers count into it and ``close`` it.

    Attributes:
        path: Named in every message.
        on_error: ``strict`` stops at the first bad line, ``skip`` counts it and continues.
        progress: Called at intervals while a large trace is read.
    """

    path: str
    on_error: OnError = "strict"
    progress: Progress = _no_progress
    format: str = ""
    unit: Unit = "line"
    lines: int = 0
    header: int = 0
    comment: int = 0
    blank: int = 0
    continued: int = 0
    steps: int = 0
    merged: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_error not in ("strict", "skip"):
            raise ConfigurationError(f"on_error is {self.on_error!r}; it can be 'strict' or 'skip'")

    def check_clusters(self, clusters: Collection[str]) -> None:
        """Check that all jobs are of one cluster: two clusters give one number to different jobs.

        Raises:
            TraceError: They are not.
        """
        if len(names := sorted(set(clusters) - {""})) > 1:
            raise TraceError(
                f"{self.path}:1: it has jobs of {len(names)} clusters ({first_of(names)}), which may share numbers; "
                "export one cluster (sacct -M CLUSTER)"
            )

    def reject(self, line: int, bad: LineError) -> None:
        """Stop at a bad line, or count it as skipped.

        Raises:
            TraceError: Reading is strict.
        """
        if self.on_error == "strict":
            raise TraceError(f"{self.path}:{line}: {bad}") from None
        before = self.skipped.get(bad.reason)
        self.skipped[bad.reason] = Skipped(before.count + 1, before.first_line) if before else Skipped(1, line)

    def other_heading(self, line: int, first: str) -> TraceError:
        """Returns the error of joined files with unlike columns, which no skipping mends.

        Args:
            line: The further heading.
            first: Where the columns before it are named.
        """
        return TraceError(
            f"{self.path}:{line}: the line is a heading with other columns than {first}; "
            "export the parts alike, or convert each to CSV (mirage trace convert) and join these"
        )

    def close(self, jobs: int) -> ReadReport:
        """Returns the final report.

        Args:
            jobs: Rows of the table.
        """
        return ReadReport(
            path=self.path,
            format=self.format,
            unit=self.unit,
            lines=self.lines,
            header=self.header,
            comment=self.comment,
            blank=self.blank,
            continued=self.continued,
            steps=self.steps,
            merged=self.merged,
            jobs=jobs,
            skipped=dict(self.skipped),
            notes=dict(self.notes),
            metadata=dict(self.metadata),
        )
