"""The compilation before the first forecast: run once, logged, and ended with the agent."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirage.agent.policy_runner import compilation
from mirage.agent.policy_runner.compilation import Compilation
from mirage.real_time import wait_until
from tests.support.waiting import until

Begun = Callable[..., Compilation]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Begun]:
    """A compilation that runs a command line."""
    made = Compilation(clock)

    def begin(*command: str) -> Compilation:
        monkeypatch.setattr(compilation, "COMMAND", command)
        made.begin()
        return made

    yield begin
    made.close()


def over(compiles: Compilation) -> bool:
    return wait_until(lambda: not compiles.is_under_way(), 120)


def test_it_runs_once_and_its_end_is_reported(
    begun: Begun, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirage.agent")
    script = f"echo x >> {tmp_path}/runs; until test -e {tmp_path}/go; do sleep 0.02; done"
    compiles = begun("sh", "-c", script)
    assert compiles.is_under_way()
    compiles.begin()
    clock.now_s += 7
    assert compiles.under_way_s() == 7
    (tmp_path / "go").touch()
    assert over(compiles)
    compiles.begin()
    assert (compiles.is_under_way(), compiles.over) == (False, True)
    assert (tmp_path / "runs").read_text() == "x\n"
    assert [record.getMessage() for record in caplog.records] == ["compiling", "compiled"]
    assert caplog.records[1].detail == "after 7 s"


@pytest.mark.parametrize(
    ("command", "detail"),
    [
        (["false"], "status 1 after 0 s; try `mirage compile what-if slurm`"),
        (["/no/such/program"], "cannot start a process: No such file or directory"),
    ],
)
def test_one_that_fails_is_reported_and_not_begun_again(
    begun: Begun, caplog: pytest.LogCaptureFixture, command: list[str], detail: str
) -> None:
    compiles = begun(*command)
    assert over(compiles)
    assert compiles.over
    assert [(record.getMessage(), record.detail) for record in caplog.records] == [("not compiled", detail)]


def test_it_gives_way_to_users_of_the_login_node(begun: Begun, tmp_path: Path) -> None:
    assert over(begun("sh", "-c", f"nice > {tmp_path}/nice"))
    assert int((tmp_path / "nice").read_text()) == min(os.nice(0) + compilation.NICE, 19)


def test_it_is_ended_with_the_runner(begun: Begun) -> None:
    compiles = begun("sleep", "1000")
    child = compiles._child
    compiles.close()
    assert child is not None
    assert child.returncode == -9
    assert not compiles.is_under_way()


AGENT = """
    import sys
    from mirage.agent.policy_runner import compilation
    compilation.COMMAND = ("sleep", "1000")
    compiles = compilation.Compilation(lambda: 0.0)
    compiles.begin()
    print(compiles._child.pid, flush=True)
    sys.stdin.readline()
"""


def test_it_dies_with_an_agent_that_is_killed() -> None:
    words = [sys.executable, "-c", textwrap.dedent(AGENT)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        child = Path("/proc") / agent.stdout.readline().strip()  # type: ignore[union-attr]
        assert child.exists()
        agent.kill()
    until(lambda: not child.exists() or ") Z" in (child / "stat").read_text(), 10, "it ends")


@pytest.mark.parametrize(("status", "missing"), [("0", False), ("1", True)])
def test_where_it_is_forbidden_it_is_only_checked(
    status: str, missing: bool, monkeypatch: pytest.MonkeyPatch, clock: Clock, tmp_path: Path
) -> None:
    monkeypatch.setattr(compilation, "COMMAND", ("sh", "-c", f'echo "$@" > {tmp_path}/words; exit {status}', "sh"))
    checks = Compilation(clock, "this is a login node")
    checks.begin()
    assert over(checks)
    assert (tmp_path / "words").read_text() == "--check\n"
    assert checks.missing is missing
    assert checks.over
