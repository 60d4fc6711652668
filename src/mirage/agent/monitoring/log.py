"""The agent's log: one JSON object per line, or plain lines for a person."""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from typing import TextIO

_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def start_logging(stream: TextIO | None = None, *, as_json: bool | None = None) -> None:
    """Send the log of ``mirage`` to a stream.

    Args:
        stream: By default standard error.
        as_json: By default unless the stream is a terminal.
    """
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines() if (not out.isatty() if as_json is None else as_json) else PlainLines())
    logger = logging.getLogger("mirage")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


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
