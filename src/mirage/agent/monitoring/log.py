"""The agent's log: one JSON object per line, or plain lines for a person."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from mirage.atomic_file import write_atomically

LONGEST_LOG_BYTES = 10_000_000

_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def start_logging(stream: TextIO | None = None, *, as_json: bool | None = None, files: Sequence[Path] = ()) -> None:
    """Send the log of ``mirage`` to a stream.

    Args:
        stream: By default standard error.
        as_json: By default unless the stream is a terminal.
        files: Files that may be the stream, opened to append; that one is limited, see ``limit_log``.
    """
    out = stream or sys.stderr
    handler = LimitedLog(out, files)
    handler.setFormatter(JsonLines() if (not out.isatty() if as_json is None else as_json) else PlainLines())
    logger = logging.getLogger("mirage")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class LimitedLog(logging.StreamHandler[TextIO]):
    """A handler that limits the file to which it writes, if that is one of some files."""

    def __init__(self, stream: TextIO, files: Sequence[Path]) -> None:
        super().__init__(stream)
        self._files = files

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        super().emit(record)
        for file in self._files:
            limit_log(file, self.stream)


def limit_log(file: Path, stream: TextIO) -> None:
    """Move the content of a log file that is too long to ``FILE.1``, which it replaces.

    The file remains the same one: the agent's child processes, and other passes, continue to append to it. Nothing
    happens if the stream writes to another file, if another process moves the content now, or if it cannot be moved.

    Args:
        file: The log file.
        stream: The handler's stream.
    """
    try:
        if os.fstat(stream.fileno()).st_size > LONGEST_LOG_BYTES:
            with _locked(stream.fileno()):
                _move(file, stream.fileno())
    except (OSError, ValueError):  # a stream without a file raises a ValueError
        return


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Locks a log file, so that one process moves it.

    A second one would move the lines that were written since, in place of all others.

    Raises:
        BlockingIOError: Another process has locked it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _move(file: Path, descriptor: int) -> None:
    """Moves the content of a log file, unless it has become short or another one."""
    written = os.fstat(descriptor)
    if written.st_size <= LONGEST_LOG_BYTES or not os.path.samestat(written, os.stat(file)):
        return
    if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
        return  # further records would be written after a hole
    content, old = file.read_bytes(), file.with_name(f"{file.name}.1")
    write_atomically(old, content, 0o600)
    with file.open("rb") as source, old.open("ab") as moved:
        source.seek(len(content))
        moved.write(source.read())  # written by others meanwhile
        moved.flush()
        os.ftruncate(descriptor, 0)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _OWN}


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    """The value where JSON can represent it without loss; else its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


class JsonLines(logging.Formatter):
    """``{"time": …, "level": …, "event": …, …}``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {"time": _instant(record), "level": record.levelname.lower()}
        line |= {"event": record.getMessage()}
        line |= {name: _plain(value) for name, value in _facts(record).items() if name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class PlainLines(logging.Formatter):
    """``2026-03-01T12:00:05Z started chain=train link=3: job 17``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, or more with a traceback."""
        facts = _facts(record)
        detail = str(facts.pop("detail", ""))
        level = [record.levelname.lower()] if record.levelno >= logging.WARNING else []
        words = [*level, record.getMessage(), *(f"{name}={value}" for name, value in facts.items())]
        text = f"{_instant(record)} {' '.join(words)}" + (f": {detail}" if detail else "")
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")
