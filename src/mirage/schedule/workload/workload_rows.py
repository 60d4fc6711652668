"""Rows of a workload's table; errors about a value name its file and line."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ConfigurationError, TraceError, UnknownName, reason, shown
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.gpu_jobs import type_mask
from mirage.trace.formats.decompress import read_bytes
from mirage.trace.formats.read_report import ReadTally

_LARGEST = 2**53
"""Larger whole numbers are not exact in a float."""


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One row of a table.

    Attributes:
        path: The file.
        line: Its line, from 1.
        cells: Its cells by column.
    """

    path: str
    line: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        """A cell that must be there."""
        value = self.cells.get(column)
        if value is None or not value.strip():
            raise TraceError(f"{self.path}:{self.line}: no {column}; fix or remove the line")
        return value.strip()

    def get(self, column: str) -> str:
        """A cell; empty if it is missing."""
        return (self.cells.get(column) or "").strip()

    def number(self, column: str, least: float = -math.inf) -> float:
        """A cell that is a finite number, ``least`` or more."""
        try:
            value = float(self[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TraceError(f"{self.path}:{self.line}: {column} is {shown(self[column])}; give a number")
        if value < least:
            raise TraceError(f"{self.path}:{self.line}: {column} is {shown(self[column])}; give {least:g} or more")
        return value

    def positive(self, column: str) -> float:
        """A cell that is a finite number above 0."""
        value = self.number(column)
        if value <= 0:
            raise TraceError(f"{self.path}:{self.line}: {column} is {shown(self[column])}; give a number above 0")
        return value

    def integer(self, column: str, least: int) -> int:
        """A cell that is a whole number, ``least`` or more."""
        value = self.number(column)
        if value != int(value) or not least <= value <= _LARGEST:
            raise TraceError(
                f"{self.path}:{self.line}: {column} is {shown(self[column])}; give a whole number of {least} or more"
            )
        return int(value)


def row_types(rows: Sequence[WorkloadRow], cluster: GpuCluster) -> Ints:
    """Masks of the GPU types in the optional column ``gpu_types``, such as ``v100/t4``.

    Raises:
        TraceError: The cluster has no GPUs of a type.
    """
    masks = np.empty(len(rows), dtype=np.int64)
    for k, row in enumerate(rows):
        try:
            masks[k] = type_mask(row.get("gpu_types"), cluster.gpu_types)
        except UnknownName as error:
            raise TraceError(f"{row.path}:{row.line}: {error}") from error
    return masks


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file, decompressed."""
    try:
        return read_bytes(path, ReadTally(os.fspath(path))).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: {reason(error)}; check the file") from error


def table_rows(path: str, text: str, header: Sequence[str] = (), delimiter: str = ",") -> list[WorkloadRow]:
    """Rows of a table with a header, or of one without a header if ``header`` is given."""
    reader = csv.DictReader(text.splitlines(), fieldnames=header or None, delimiter=delimiter)
    rows = []
    try:
        columns = reader.fieldnames or ()
        if twice := [column for column in columns if column and columns.count(column) > 1]:
            raise TraceError(f"{path}:1: column {shown(twice[0])} occurs twice; remove one of them")
        for cells in reader:
            if None in cells:
                raise TraceError(
                    f"{path}:{reader.line_num}: more cells than the {len(columns)} columns; fix or remove the line"
                )
            rows.append(WorkloadRow(path, reader.line_num, cells))
    except csv.Error as error:
        raise TraceError(f"{path}:{reader.line_num + 1}: {error}; fix or remove the line") from error
    if not rows:
        raise TraceError(f"{path}: it has no rows; check the command that wrote it")
    return rows
