"""The bytes of a trace: read whole, decompressed by what they are, not by what the file is called."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from mirage.errors import TraceError
from mirage.trace.formats.read_report import ReadTally

_ZSTD = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 16


def read_bytes(path: str | os.PathLike[str], tally: ReadTally) -> bytes:
    """The content of a file, decompressed; ``-`` is standard input.

    A compressed file that breaks off is an error, or, when skipping, gives what could be saved of it.

    Raises:
        TraceError: The file cannot be opened, is empty, or its compression is damaged or unknown here.
    """
    try:
        if os.fspath(path) == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise TraceError(f"{tally.path}: cannot be read: {error.strerror}; check the path") from error
    data = _decompressed(data, tally)
    if not data.strip():
        raise TraceError(f"{tally.path}:1: the file is empty; check the command that was to write it")
    return data


def _decompressed(data: bytes, tally: ReadTally) -> bytes:
    opener = next((opener for magic, opener in _openers().items() if data.startswith(magic)), None)
    if opener is None:
        if data.startswith(_ZSTD):
            raise TraceError(f"{tally.path}:1: compressed with zstd, which needs Python 3.14; decompress it first")
        return data
    saved: list[bytes] = []
    try:
        with opener(io.BytesIO(data)) as stream:
            while chunk := stream.read(_CHUNK):
                saved.append(chunk)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        lines = 1 + sum(chunk.count(b"\n") for chunk in saved)
        if tally.on_error == "strict":
            raise TraceError(
                f"{tally.path}:{lines}: the compressed file is damaged or cut short: {error}; "
                "fetch it again, or skip what is bad to read what is left"
            ) from error
        tally.notes["compressed file damaged or cut short: the rest is lost"] += 1
    return b"".join(saved)


def _openers() -> dict[bytes, Callable[[io.BytesIO], Any]]:
    """What opens a compressed stream, by the bytes it begins with."""
    known: dict[bytes, Callable[[io.BytesIO], Any]] = {
        b"\x1f\x8b": gzip.open,
        b"BZh": bz2.open,
        b"\xfd7zXZ\x00": lzma.open,
    }
    with contextlib.suppress(ImportError):  # the standard library has it from Python 3.14 on
        known[_ZSTD] = importlib.import_module("compression.zstd").open
    return known


def decode(data: bytes, tally: ReadTally) -> str:
    """UTF-8 text; bytes that are none become U+FFFD and are noted, not lost."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", errors="replace")
        tally.notes["line with bytes that are not UTF-8 (shown as \ufffd)"] += sum(
            "\ufffd" in line for line in text.split("\n")
        )
        return text


def numbered_lines(text: str, tally: ReadTally) -> Iterator[tuple[int, str]]:
    """The lines that hold something, numbered from 1; lines and blank ones are counted.

    Only a line feed ends a line: job names may hold any other separator Unicode knows.
    """
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    tally.lines += len(lines)
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        if line.strip():
            yield number, line
        else:
            tally.blank += 1
