"""kill -9 at every point that matters, on a real slurmctld: no link twice, none lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mirage.agent.model import ChainState
from tests.support.killed_chain import SERVICE, Chain
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(private_cluster) -> object:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=4, min_job_age_s=36_000)


POINTS = [
    "before:add_link",
    "after:add_link",
    "before:attempt",
    "after:attempt",
    "before:submit",
    "after:submit",
    "before:change_link=submitted",
    "after:change_link=submitted",
    "before:update",
    "after:update",
    "after:change_link=released",
    "before:change_link=started",
    "after:change_link=started",
    "after:change_link=ready",
    "before:signal",
    "after:signal",
    "after:change_link=signalled",
    "before:change_link=ended",
    "after:change_link=ended",
]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point_and_restarted(cluster, tmp_path: Path, point: str) -> None:
    chain = Chain(cluster, tmp_path, "crash-" + "".join(c if c.isalnum() else "-" for c in point), 6, links=3)
    doomed = chain.agent(point)
    assert doomed.wait(300) == -signal.SIGKILL
    assert chain.violations() == []
    chain.finish()
    assert len(chain.jobs()) == 3


def test_killed_before_the_end_of_a_link_that_does_not_leave(cluster, tmp_path: Path) -> None:
    chain = Chain(cluster, tmp_path, "stubborn", 40, links=2, signal="USR1", grace_s=2)  # USR1 is not trapped: it kills
    (tmp_path / "service.sh").write_text(
        SERVICE.format(seconds=20).replace("USR2", "TERM").replace("trap", "trap '' USR1; trap")
    )
    for point in ("before:cancel", "after:cancel"):
        assert chain.agent(point).wait(300) == -signal.SIGKILL
    chain.finish()
    assert len(chain.jobs()) == 2


KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "30"))


def start_s() -> float:
    """The time that a process of the agent takes to import its modules now."""
    begin_s = time.monotonic()
    subprocess.run([sys.executable, "-c", "import tests.support.dying_agent"], check=True)
    return time.monotonic() - begin_s


def test_random_kills(cluster, tmp_path: Path) -> None:
    """The soak: agents are killed at random and restarted; nothing is submitted twice."""
    dice = random.Random(20261121)
    chain = Chain(cluster, tmp_path, "soak", 8)
    deaths: Counter[str] = Counter()
    for k in range(KILLS):
        if k % 6 == 0:
            started_s = start_s()  # on a busy machine an agent that is killed after 2.6 s has not begun
        agent = chain.agent()
        time.sleep(dice.uniform(0.6, max(2.6, 4 * started_s)))
        deaths["early" if agent.poll() is not None else "killed"] += 1
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        assert chain.violations() == []
    started = chain.started()
    chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    chain.finish()
    print(f"soak: {deaths['killed']} kills, {started} links started, {len(chain.jobs())} jobs")
    assert deaths == {"killed": KILLS}
    assert started >= KILLS // 20
