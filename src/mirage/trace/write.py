"""The writer of traces: a file is whole or not there at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.trace.formats.csv import csv_bytes
from mirage.trace.formats.parquet import parquet_bytes
from mirage.trace.formats.swf_write import swf_bytes
from mirage.trace.table import JobTable
from mirage.whole_file import write_whole

WRITERS: dict[str, Callable[[JobTable], bytes]] = {
    "csv": csv_bytes,
    "parquet": parquet_bytes,
    "swf": swf_bytes,
}
"""The formats that can be written, by name."""


def write_trace(table: JobTable, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a table to a file; a name that ends in ``.gz`` is compressed.

    The file appears under its name only when it is complete: whatever goes wrong, an older file of that
    name is still what it was.

    Args:
        table: The jobs.
        path: The file.
        format: ``csv``, ``parquet`` or ``swf``; by default what the name ends in.

    Raises:
        UnknownName, ConfigurationError: As ``format_to_write`` says.
        TraceError: The file cannot be written: the disk is full, the folder absent …
    """
    name = format_to_write(path, format)
    content = WRITERS[name](table)
    try:
        write_whole(path, gzip.compress(content, mtime=0) if Path(path).suffix == ".gz" else content)
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be written: {error.strerror}; make room or choose another place. "
            "What was there before is untouched"
        ) from error


def format_to_write(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The name of the format a file is to have: the one asked for, else what its name ends in.

    Raises:
        UnknownName: There is no format of the name that is asked for.
        ConfigurationError: None is asked for, and the file's name ends in none.
    """
    suffixes = [suffix.removeprefix(".") for suffix in Path(path).suffixes]
    name = format or next(iter(suffixes[-2:-1] if suffixes[-1:] == ["gz"] else suffixes[-1:]), "")
    if format is None and name not in WRITERS:
        raise ConfigurationError(
            f"{path}: its name tells no format to write; let it end in .{', .'.join(WRITERS)}, or name one with --to"
        )
    if name not in WRITERS:
        raise UnknownName("format to write", name, WRITERS)
    return name
