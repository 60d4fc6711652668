"""Writer of traces: a file is complete or absent."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, TraceError, UnknownName
from mirage.trace.formats.job_table_csv import csv_bytes
from mirage.trace.formats.parquet import parquet_bytes
from mirage.trace.formats.swf import swf_bytes
from mirage.trace.table import JobTable, check_table

WRITERS: dict[str, Callable[[JobTable], bytes]] = {
    "csv": csv_bytes,
    "parquet": parquet_bytes,
    "swf": swf_bytes,
}
"""The formats that can be written, by name."""


def write_trace(table: JobTable, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a table to a file; a name with the suffix ``.gz`` is compressed.

    The file appears under its name only when it is complete: on any error, an older file of that name is unchanged.

    Args:
        table: The jobs.
        path: The file.
        format: ``csv``, ``parquet`` or ``swf``; by default from the suffix of the name.

    Raises:
        UnknownName, ConfigurationError: As for ``format_to_write``, or the jobs are no table.
        TraceError: The file cannot be written: the disk is full, the folder absent …
        BrokenPipeError: It is a pipe, and nobody reads it.
    """
    check_table(table)
    name = format_to_write(path, format)
    content = WRITERS[name](table)
    try:
        write_atomically(path, gzip.compress(content, mtime=0) if Path(path).suffix.lower() == ".gz" else content)
    except BrokenPipeError:  # the reader of a pipe has enough
        raise
    except OSError as error:
        unchanged = ". The previous file is unchanged" if Path(path).is_file() else ""
        raise TraceError(
            f"{path}: cannot be written: {error.strerror}; free some space or choose another place{unchanged}"
        ) from error


def format_to_write(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Returns the name of the format to write: the requested one, else from the file's suffix.

    Raises:
        UnknownName: The requested format is unknown.
        ConfigurationError: No format is requested, and the file's suffix has none.
    """
    suffixes = [suffix.removeprefix(".").lower() for suffix in Path(path).suffixes]
    name = format or next(iter(suffixes[-2:-1] if suffixes[-1:] == ["gz"] else suffixes[-1:]), "")
    if format is None and name not in WRITERS:
        raise ConfigurationError(
            f"{path}: its name has no format to write; end it in .{', .'.join(WRITERS)}, each also with .gz, "
            "or name one with --to (in Python format=)"
        )
    if name not in WRITERS:
        raise UnknownName("format to write", name, WRITERS)
    return name
