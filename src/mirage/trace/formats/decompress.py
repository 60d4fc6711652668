"""Decompression of traces, detected from their content, and their text line by line."""

from __future__ import annotations

import bz2
import codecs
import importlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from mirage.errors import ConfigurationError, LineError, TraceError, shown
from mirage.extras import install
from mirage.trace.formats.read_report import ReadTally

_CHUNK = 1 << 16
_PROGRESS_LINES = 8192
_MOST_COMPRESSIONS = 2
_CUT = "compressed file damaged or cut short: the rest, including the last incomplete line, is lost"
_NOT_UTF8 = (
    "line with bytes that are not UTF-8 (read as \ufffd, so different names may become one; "
    "iconv -f LATIN1 -t UTF-8 FILE converts them)"
)


def read_bytes(path: str | os.PathLike[str], tally: ReadTally) -> bytes:
    """Returns the decompressed content of a file; ``-`` is standard input.

    A file may have been compressed twice. A truncated compressed file is an error, or,
    when skipping, yields the part that can be read.

    Raises:
        TraceError: The file cannot be opened, is empty, or its compression is damaged; or standard input is closed.
        ConfigurationError: It is compressed with zstd, and no installed package reads that.
    """
    try:
        if os.fspath(path) == "-":
            if sys.stdin is None:
                raise TraceError(f"{tally.path}: standard input is closed; name a file")
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise TraceError(f"{tally.path}: cannot be read: {error.strerror}; check the path") from error
    for _ in range(_MOST_COMPRESSIONS):
        data = _decompressed(data, tally)
    if not data or data.isspace():
        raise TraceError(f"{tally.path}:1: the file is empty; check the command that writes it")
    if data.startswith(b"PAR1"):  # Parquet, which is no text
        return data
    return data.replace(b"\n" + codecs.BOM_UTF8, b"\n")  # of files that were joined


def _decompressed(data: bytes, tally: ReadTally) -> bytes:
    magic = next((magic for magic in _DECOMPRESSORS if data.startswith(magic)), None)
    if magic is None:
        return data
    saved: list[bytes] = []
    try:
        saved.extend(_pieces(data, magic))  # if it raises, the pieces before are still in the list
    except (EOFError, OSError, zlib.error, lzma.LZMAError, _zstd_error()) as error:
        found = b"".join(saved)
        line = found.count(b"\n") + 1
        readable = _whole_lines(found)
        if tally.on_error == "strict" or not readable:
            hint = "fetch it again" + ", or read what precedes the damage with --skip-bad-lines" * bool(readable)
            raise TraceError(
                f"{tally.path}:{line}: the compressed file is damaged or cut short: {error}; {hint}"
            ) from error
        tally.notes[_CUT] += 1
        return readable
    return b"".join(saved)


def _pieces(data: bytes, magic: bytes) -> Iterator[bytes]:
    """Yields the content of consecutive compressed streams, in pieces.

    Zeros after the last are padding.

    Raises:
        EOFError: The last stream is truncated.
        OSError: A stream is followed by something else.
    """
    make, view, position = _DECOMPRESSORS[magic](), memoryview(data), 0
    while position < len(data) and (data[position] or data[position:].strip(b"\0")):
        if not data.startswith(magic, position):
            raise OSError("what follows the compressed data is not compressed")
        stream = make()
        while not stream.eof:
            if position == len(data):
                raise EOFError("it ends before its end marker")
            chunk = view[position : position + _CHUNK]
            position += len(chunk)
            yield stream.decompress(chunk)
        position -= len(stream.unused_data)


def _whole_lines(data: bytes) -> bytes:
    """Returns the data without its last, truncated line.

    JSON is left unchanged: its reader finds the truncation.
    """
    is_json = data.lstrip()[:1] in (b"{", b"[")
    return data if is_json else data[: data.rfind(b"\n") + 1]


def _zstd() -> Callable[[], Any]:
    """Returns the factory of zstd decompressors."""
    module = _zstd_module()
    if module is None:
        raise ConfigurationError(
            "the trace is compressed with zstd, which needs a package that is not installed; "
            f"run: {install('zstd')}, or decompress the trace first"
        )
    make: Callable[[], Any] = module.ZstdDecompressor
    return make if module.__name__.startswith("compression") else lambda: make().decompressobj()


def _zstd_error() -> type[Exception]:
    """Returns the error of a damaged zstd stream, if zstd can be read."""
    module = _zstd_module()
    return EOFError if module is None else module.ZstdError


def _zstd_module() -> Any | None:
    """Returns a module that reads zstd: the package, else Python 3.14's own; None if absent."""
    for name in ("zstandard", "compression.zstd"):
        with suppress(ImportError):
            return importlib.import_module(name)
    return None


_DECOMPRESSORS: dict[bytes, Callable[[], Callable[[], Any]]] = {
    b"\x1f\x8b": lambda: partial(zlib.decompressobj, wbits=zlib.MAX_WBITS | 16),
    b"BZh": lambda: bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": _zstd,
}
"""Factories of decompressors, by the first bytes of a compressed stream."""


def decode(data: bytes, tally: ReadTally) -> str:
    """Decodes UTF-8 text; invalid bytes become U+FFFD and are noted, not lost."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", errors="replace")
        tally.notes[_NOT_UTF8] += sum("\ufffd" in line for line in text.split("\n"))
        return text


def pieces(data: bytes, size: int, position: int = 0) -> Iterator[bytes]:
    """Yields the data from a position on, in pieces of about a size that end with a line."""
    while position < len(data):
        end = data.find(b"\n", position + size - 1) + 1 or len(data)
        yield data[position:end]
        position = end


def most_lines(data: bytes) -> int:
    """Upper bound of the number of lines, blank ones included."""
    return data.count(b"\n") + 1


def numbered_lines(data: bytes, tally: ReadTally, first: int = 1) -> Iterator[tuple[int, str]]:
    """Yields non-blank lines, numbered from ``first``; all lines and blank ones are counted.

    Only a line feed ends a line: job names may hold any other separator of Unicode. Lines are decoded one by one;
    bytes that are not UTF-8 become U+FFFD and are noted, not lost.
    """
    position = 0
    for number, raw in enumerate(io.BytesIO(data), start=first):
        tally.lines += 1
        position += len(raw)
        if not number % _PROGRESS_LINES:
            tally.progress(position, len(data))
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            line = raw.decode("utf-8", errors="replace")
            tally.notes[_NOT_UTF8] += 1
        line = line.removesuffix("\n").removesuffix("\r")
        if "\0" in line:
            tally.reject(number, LineError("NUL bytes", shown(line), "the file has a hole; copy it again"))
        elif line.strip():
            yield number, line
        else:
            tally.blank += 1
