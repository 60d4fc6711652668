"""A killed slurmctld and a full disk, both real: messages of commands, and recovery."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mirage.real_time import real_s
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

OUTAGE_S = int(os.environ.get("MIRAGE_OUTAGE_S", "180"))
"""Long enough that pauses which double from a minute have grown."""

RESUMED_S = 30
"""Seconds until an agent works again, as the documentation promises."""


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=2, accounting=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "none", folder], capture_output=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small file system: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def shown(shell: Shell) -> tuple[int, str]:
    """The outage, in which every command shows it alike: since when, and in words."""
    status = json.loads(shell.mirage("agent", "status", "--json"))
    row = shell.row("serve")
    show = json.loads(shell.mirage("chain", "show", "serve", "--json"))
    assert status["agent"] is not None
    assert row["agent"]
    assert status["outage_since"] == row["outage_since"] == show["outage_since"]
    since = datetime.fromtimestamp(status["outage_since"]).strftime("since %Y-%m-%dT%H:%M:%S")
    assert since in shell.mirage("agent", "status")
    for words in (("chain", "list"), ("chain", "show", "serve")):
        shell.mirage(*words)
        assert since in shell.stderr, shell.stderr
    return status["outage_since"], status["outage"]


def polled_s(shell: Shell) -> int:
    return int(shell.row("serve")["as_of"] or 0)


def resumed(shell: Shell, since_s: float) -> float:
    """Real seconds until the agent has polled the queue after a time of the clock."""
    begun_s = real_s()
    while polled_s(shell) < since_s:
        assert real_s() < begun_s + 600, (shell.folder / "agent.log").read_text()[-3000:]
        time.sleep(0.2)
    return real_s() - begun_s


def test_after_a_killed_controller(cluster: Any, tmp_path: Path, record_property) -> None:
    shell = Shell(cluster, tmp_path)
    shell.submit("serve", "-t", "60", "--policy", "reactive", "serve.sh")
    agent = shell.agent("--poll", "60s")
    shell.until(lambda: polled_s(shell) > 0, 20, "the agent polls")
    last_s = polled_s(shell)
    cluster.kill_controller()
    killed_s, begun_s = real_s(), time.time()
    try:
        shell.until(lambda: shell.row("serve")["outage_since"] is not None, 60, "it is shown")
        shown_after_s = real_s() - killed_s
        time.sleep(max(killed_s + OUTAGE_S - real_s(), 0))
        since_s, words = shown(shell)
        assert last_s <= since_s <= begun_s + shown_after_s, "the last contact before it"
        assert words.startswith("no contact with slurmctld since ")
    finally:
        cluster.start_controller()
    took_s = resumed(shell, time.time())
    record_property("resumed_s", took_s)
    shell.until(lambda: shell.row("serve")["outage_since"] is None, 5, "the outage is over")
    print(f"killed for {OUTAGE_S} s: shown after {shown_after_s:.1f} s, resumed after {took_s:.1f} s")
    assert terminate(agent) == 0
    assert took_s <= RESUMED_S
    shell.mirage("chain", "stop", "serve")


def test_after_a_full_disk(cluster: Any, tmp_path: Path, small_disk: Path, record_property) -> None:
    shell = Shell(cluster, tmp_path, home=small_disk / "home")
    shell.submit("serve", "-t", "60", "--policy", "reactive", "serve.sh")
    agent = shell.agent("--poll", "60s")
    shell.until(lambda: polled_s(shell) > 0, 20, "the agent polls")
    last_s = polled_s(shell)
    fill = small_disk / "fill"
    with pytest.raises(OSError, match="No space left"):
        fill_up(fill)
    assert shutil.disk_usage(small_disk).free == 0
    filled_s, begun_s = real_s(), time.time()
    try:
        shell.until(lambda: shell.row("serve")["outage_since"] is not None, 90, "it is shown")
        shown_after_s = real_s() - filled_s
        time.sleep(max(filled_s + OUTAGE_S - real_s(), 0))
        since_s, words = shown(shell)
        assert last_s <= since_s <= begun_s + shown_after_s, "the last contact before it"
        assert words.startswith("the agent cannot write the store since ")
        assert "full" in words
    finally:
        fill.unlink()
    took_s = resumed(shell, time.time())
    record_property("resumed_s", took_s)
    shell.until(lambda: shell.row("serve")["outage_since"] is None, 5, "the outage is over")
    print(f"full for {OUTAGE_S} s: shown after {shown_after_s:.1f} s, resumed after {took_s:.1f} s")
    assert terminate(agent) == 0
    assert took_s <= RESUMED_S
    shell.mirage("chain", "stop", "serve")
