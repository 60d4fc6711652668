"""The agent's log, read back."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
from collections.abc import Iterator

import pytest

from mirage.agent.monitoring.log import start_logging


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    logger = logging.getLogger("mirage")
    was = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = was


def output(**how: object) -> str:
    """What comes of a start, a warning with odd facts, and a failure."""
    out = io.StringIO()
    start_logging(out, **how)
    log = logging.getLogger("mirage.agent")
    log.info("started", extra={"chain": "train", "link": 3, "job": 17, "detail": "on n01"})
    log.warning(
        "trouble", extra={"detail": "line one\nline \u2028 two", "odd": float("inf"), "none": None, "time": "now"}
    )
    try:
        raise ValueError("no such policy")
    except ValueError:
        log.exception("policy failed")
    log.debug("not said")
    return out.getvalue()


def test_a_machine_reads_a_json_object_a_line() -> None:
    first, second, third = map(json.loads, output().splitlines())
    assert list(first) == ["time", "level", "event", "chain", "link", "job", "detail"]
    assert first["time"].endswith("Z")
    assert {**first, "time": ""} == {
        "time": "", "level": "info", "event": "started", "chain": "train", "link": 3, "job": 17, "detail": "on n01",
    }  # fmt: skip
    assert (second["detail"], second["odd"], second["none"]) == ("line one\nline \u2028 two", "inf", None)
    assert second["time"] != "now"
    assert third["level"] == "error"
    assert "ValueError: no such policy" in third["traceback"]


def test_a_person_reads_words() -> None:
    first, *_ = lines = output(as_json=False).splitlines()
    assert first.partition(" ")[2] == "started chain=train link=3 job=17: on n01"
    assert lines[1].split()[1:3] == ["warning", "trouble"]
    assert lines[-1] == "ValueError: no such policy"


def test_a_terminal_gets_words() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        start_logging(terminal)
        logging.getLogger("mirage.agent").info("started", extra={"job": 17})
        terminal.flush()
        assert os.read(ours, 1000).decode().rstrip().endswith("Z started job=17")
    os.close(ours)


def test_other_libraries_are_not_spoken_for() -> None:
    out = io.StringIO()
    start_logging(out)
    logging.getLogger("alembic").warning("secret")
    assert out.getvalue() == ""
