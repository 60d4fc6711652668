"""Take-overs on a real slurmctld: never two trainers, with and without an agent."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

TRAIN = f"""#!{sys.executable}
import os, sys, time
os.environ["MIRAGE_PROGRESS_FILE"] = "progress"
os.environ["PATH"] = "{{programs}}:" + os.environ["PATH"]
from mirage.hooks import progress, saved, should_stop, take_over

def write(word):
    with open("train.log", "a") as log:
        log.write(f"{{time.time():.2f}} {{os.environ['MIRAGE_LINK']}} {{os.getpid()}} {{word}}\\n")

write("loads")
time.sleep(5)
marker = take_over("--signal-after", "{{signal_after}}")
write(f"takes-over:{{marker}}")
step = int(marker or 0)
while True:
    write("trains")
    time.sleep(0.2)
    step += 1
    progress(step)
    if step == 1:
        saved(step)
    if should_stop():
        time.sleep(1)
        write(f"saves:{{step}}")
        saved(step)
        sys.exit(0)
"""


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    return private_cluster(nodes=10, min_job_age_s=36_000)


def prepared(cluster: Any, folder: Path, home: Path, signal_after: str = "8s") -> Shell:
    """A folder with the training.

    Args:
        signal_after: Without an agent, a link signals the one before it after this time.
    """
    shell = Shell(cluster, folder, home)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "mirage").write_text(f'#!/bin/sh\nexec {sys.executable} -m mirage "$@"\n')
    (programs / "mirage").chmod(0o755)
    shell.script("train.py", TRAIN.replace("{programs}", str(programs)).replace("{signal_after}", signal_after))
    (folder / "train.py").chmod(0o755)
    return shell


def training(cluster: Any, folder: Path, home: Path, signal_after: str = "8s") -> Shell:
    """A chain named as its folder; each link may start 8 s after the one before it."""
    shell = prepared(cluster, folder, home, signal_after)
    shell.submit(
        folder.name, "-t", "4", "--policy", "lead:0.0603", "--ready-by-job", "--grace", "15s", "-o", "job-%j.log",
        "train.py",
    )  # fmt: skip
    return shell


def lines(shell: Shell) -> list[tuple[float, int, int, str]]:
    """Time, link, process and word of each line of a training's log."""
    path = shell.folder / "train.log"
    found = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(float(at_s), int(link), int(pid), word) for at_s, link, pid, word in found]


def words(shell: Shell, link: int) -> list[str]:
    return [word for _, number, _, word in lines(shell) if number == link]


def never_two(shell: Shell) -> bool:
    """Whether each link begins to train after the last sign of life of the one before it."""
    rows = lines(shell)
    ends = {link: at_s for at_s, link, _, word in rows if word == "trains" or word.startswith("saves")}
    begins = {link: at_s for at_s, link, _, word in rows if word.startswith("takes-over")}
    return all(ends[link - 1] < begins[link] for link in begins if link > 1)


def output(shell: Shell) -> str:
    return "".join(path.read_text() for path in shell.folder.glob("job-*.log"))


def test_a_successor_loads_while_its_predecessor_trains_and_takes_over_its_checkpoint(
    cluster: Any, tmp_path: Path
) -> None:
    shell = training(cluster, tmp_path / "normal", tmp_path / "home")
    agent = shell.agent()
    shell.until(lambda: any(word.startswith("takes-over") for word in words(shell, 2)), 60, "a take-over")
    terminate(agent)
    shell.mirage("chain", "stop", "normal")
    assert never_two(shell)
    saved = next(word for word in words(shell, 1) if word.startswith("saves"))
    assert saved.replace("saves", "takes-over") in words(shell, 2), "it resumes from the last checkpoint"
    rows = lines(shell)
    loads_s = next(at_s for at_s, link, _, word in rows if (link, word) == (2, "loads"))
    assert sum(at_s > loads_s for at_s, link, _, _ in rows if link == 1) > 10, "the first trains while the second loads"
    assert "no agent has made them leave" not in output(shell)


def test_without_an_agent_and_with_either_side_killed_there_are_never_two_trainers(
    cluster: Any, tmp_path: Path
) -> None:
    """The agent is killed while the second link of each of four chains loads.

    One of these soon signals its predecessor.
    """
    home = tmp_path / "home"
    shells = {
        name: training(cluster, tmp_path / name, home, "8s" if name == "alone" else "2m")
        for name in ("alone", "cancelled", "killed", "verb-killed")
    }
    alone, cancelled, killed, verb_killed = shells.values()
    agent = alone.agent()
    alone.until(lambda: all(words(shell, 2) for shell in shells.values()), 90, "four successors load")
    agent.kill()
    agent.wait()
    for shell in shells.values():
        shell.until(lambda shell=shell: "waits until" in output(shell), 30, "it waits")  # type: ignore[misc]
    cancelled.cluster.run("scancel", str(cancelled.found("cancelled")[1][0].id))
    trainer = next(pid for _, link, pid, word in lines(killed) if (link, word) == (1, "trains"))
    os.kill(trainer, signal.SIGKILL)
    waiting = next(pid for _, link, pid, _ in lines(verb_killed) if link == 2)
    (verb,) = [int(pid) for pid in Path(f"/proc/{waiting}/task/{waiting}/children").read_text().split()]
    os.kill(verb, signal.SIGKILL)

    alone.until(lambda: "trains" in words(alone, 2), 60, "it signals its predecessor itself, and takes over")
    saved = next(word for word in words(alone, 1) if word.startswith("saves"))
    assert saved.replace("saves", "takes-over") in words(alone, 2)
    assert "no agent has made them leave: USR2 to job" in output(alone)
    for shell in (cancelled, killed):
        shell.until(lambda shell=shell: "trains" in words(shell, 2), 60, "it takes over")  # type: ignore[misc]
    assert not any(word.startswith("saves") for word in words(killed, 1))
    assert "takes-over:1" in words(killed, 2), "the checkpoint before"
    assert re.search(r"job \d+ left without a new checkpoint: the newest is 1", output(killed))
    assert words(verb_killed, 2) == ["loads"], "it left, and has never trained"
    before = len(words(verb_killed, 1))
    if not any(word.startswith("saves") for word in words(verb_killed, 1)):
        verb_killed.until(lambda: len(words(verb_killed, 1)) > before, 10, "its predecessor trains on")
    for name, shell in shells.items():
        shell.mirage("chain", "stop", name, status=None)
        assert never_two(shell), name


@pytest.mark.soak
def test_a_chain_without_an_agent_takes_over_too(cluster: Any, tmp_path: Path) -> None:
    """With so short a limit, its tree releases all links at once.

    The third link makes the second leave while that one waits for the first.
    """
    shell = prepared(cluster, tmp_path / "plain", tmp_path / "home")
    shell.script("train.sh", "#!/bin/bash\n#SBATCH -o job-%j.log\nexec ./train.py\n")
    shell.mirage("submit", "--agentless", "--chain", "plain", "-t", "3", "--ready-by-job", "--grace", "15s", "train.sh")
    try:
        shell.until(lambda: "trains" in words(shell, 3), 120, "the third link trains")
    finally:
        cluster.run("scancel", "--me")
    rows = lines(shell)
    assert max(at_s for at_s, link, _, _ in rows if link < 3) < min(
        at_s for at_s, link, _, word in rows if (link, word) == (3, "trains")
    )
