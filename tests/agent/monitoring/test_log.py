"""The agent's log, read back."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.monitoring import log as module
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


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("mode", ["a", "w"])
def test_a_long_log_leaves_one_old_file(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LOG_BYTES", 500)
    path, old = tmp_path / "agent.log", tmp_path / "agent.log.1"
    with path.open(mode) as out, path.open("a") as child:
        start_logging(out, files=(tmp_path / "agent-job.log", path))
        for number in range(30):
            logging.getLogger("mirage.agent").info("polled", extra={"number": number})
        print(json.dumps({"number": 30}), file=child, flush=True)
    if mode == "w":
        assert not old.exists(), "a stream that does not append would leave a hole"
        return
    found = numbers(old) + numbers(path)
    assert found == list(range(found[0], 31))
    assert 500 < old.stat().st_size < 700
    assert path.stat().st_size <= 500 + 50
    assert old.stat().st_mode & 0o777 == 0o600


def test_two_processes_that_find_the_log_long_move_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one has moved it before the first one reads it."""
    monkeypatch.setattr(module, "LONGEST_LOG_BYTES", 10)
    path, same = tmp_path / "agent.log", os.path.samestat
    path.write_text("longer than the limit\n")
    with path.open("a") as out, path.open("a") as other:

        def other_is_first(*stats: os.stat_result) -> bool:
            monkeypatch.setattr(os.path, "samestat", same)
            module.limit_log(path, other)
            return same(*stats)

        monkeypatch.setattr(os.path, "samestat", other_is_first)
        module.limit_log(path, out)
    assert ((tmp_path / "agent.log.1").read_text(), path.read_text()) == ("longer than the limit\n", "")


def test_what_is_written_while_the_log_is_moved_is_moved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LOG_BYTES", 10)
    path, write = tmp_path / "agent.log", module.write_atomically
    path.write_text("longer than the limit\n")
    with path.open("a") as out, path.open("a") as child:

        def slow_write(*words: Any) -> None:
            write(*words)
            print("late", file=child, flush=True)

        monkeypatch.setattr(module, "write_atomically", slow_write)
        module.limit_log(path, out)
    assert ((tmp_path / "agent.log.1").read_text(), path.read_text()) == ("longer than the limit\nlate\n", "")


def test_another_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LOG_BYTES", 10)
    (tmp_path / "agent.log").write_text("an earlier agent, longer than the limit")
    with (tmp_path / "mine").open("a") as out:
        start_logging(out, files=(tmp_path / "agent.log", tmp_path / "none"))
        logging.getLogger("mirage.agent").info("started")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.log", "mine"]
    assert (tmp_path / "mine").stat().st_size > 10
