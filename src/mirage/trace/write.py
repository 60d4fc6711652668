"""The writer of traces: a file is whole or not there at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
from collections.abc import Callable
from pathlib import Path

from mirage.errors import TraceError, UnknownName
from mirage.trace.formats.csv import csv_bytes
from mirage.trace.formats.parquet import parquet_bytes
from mirage.trace.formats.swf_write import swf_bytes
from mirage.trace.table import JobTable

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
        UnknownName: There is no such format.
        TraceError: The file cannot be written: the disk is full, the folder absent …
    """
    path = Path(path)
    suffixes = [suffix.removeprefix(".") for suffix in path.suffixes]
    compress = bool(suffixes) and suffixes[-1] == "gz"
    name = format or next(iter(suffixes[-2:-1] if compress else suffixes[-1:]), "")
    if name not in WRITERS:
        raise UnknownName("format to write", name, WRITERS)
    content = WRITERS[name](table)
    _write_whole(path, gzip.compress(content, mtime=0) if compress else content)


def _write_whole(path: Path, content: bytes) -> None:
    """Write beside the file, then put it in its place.

    A pipe or a device is written to directly.
    """
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(content)
            return
        target = path.resolve()
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be written: {error.strerror}; make room or choose another place. "
            "What was there before is untouched"
        ) from error
