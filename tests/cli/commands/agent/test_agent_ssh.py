"""``mirage agent run --ssh``: the connection, the clock and the rules of the other host."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from mirage.cli import cli_context as cluster
from mirage.cli.commands.agent.agent_run import _connect
from tests.support.ssh_server import login_host


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with rules of its site."""
    folder = login_host(tmp_path, monkeypatch)
    monkeypatch.setenv("MIRAGE_SSH", "")
    monkeypatch.setenv("MIRAGE_HOME", str(folder / "m"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setattr("mirage.slurm.ssh_runner.LONGEST_SOCKET", 400)
    monkeypatch.setattr("mirage.agent.site_file.SITE_FILE", folder / "site.toml")
    (folder / "site.toml").write_text("least_poll = '2m'\n")
    return folder


@pytest.mark.parametrize("name", ["login1", "ssh://eve@login1:2222"])
def test_the_rules_of_the_host_count(name: str, host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _connect(name)
    assert cluster.site_rules().least_poll_s == 120
    assert cluster.client().user == "eve"
    assert capsys.readouterr().err == ""
    (host / "status").write_text("255")
    _connect(name)
    assert cluster.site_rules().least_poll_s == 120, "without a connection, those of the last time"
    assert f"no connection to {name}" in capsys.readouterr().err
    (host / "status").unlink()
    (host / "site.toml").unlink()
    _connect(name)
    assert cluster.site_rules().least_poll_s == 0


def test_a_clock_that_differs_is_reported(
    host: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started_s = time.time()
    monkeypatch.setattr(cluster, "clock", lambda: started_s - 90)
    _connect("login1")
    assert re.search(r"the clock of login1 differs by \+(89|9\d) s", capsys.readouterr().err)


def test_a_slow_answer_is_no_difference_of_clocks(
    host: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((time.time() - 60, time.time() + 60))
    monkeypatch.setattr(cluster, "clock", lambda: next(clock))
    _connect("login1")
    assert capsys.readouterr().err == ""
