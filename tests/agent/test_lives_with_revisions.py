"""Whole lives of revised chains, in virtual time; the agent dies between any two steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.agent import Agent
from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import Chain, ChainSpec, ChainState, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.job_state import JobState
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.records import QueuedJob, Submission
from mirage.trace.table import JobTable
from tests.support import fickle
from tests.support.agent_store import without_waiting_for_the_disk
from tests.support.faulty_slurm import FaultySlurm
from tests.support.ready_shells import TrueShell

SETTINGS = AgentSettings(poll_s=200, busy_poll_s=100)
"""Few looks: a life is to pass in less than a second."""


class Killed(BaseException):
    """The end of an agent, at once."""


class Mortal:
    """Stands before a store or a cluster, and ends the agent around one of its calls.

    Args:
        point: ``before:cancel``, ``after:change_link``; the number of the call where it is not the first.
    """

    def __init__(self, inner: Any, point: str) -> None:
        self.inner = inner
        self.when, self.method, *number = point.split(":")
        self.left = int(number[0]) if number else 1

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name != self.method:
            return found

        def called(*words: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self.when == "before":
                raise Killed
            done = found(*words, **named)
            if self.left == 0:
                raise Killed
            return done

        return called


class World:
    """A machine of one node, a chain of one-hour links, and an agent with a scripted policy."""

    def __init__(self, folder: Path, store: SqlStore, word: Path, program: Program, **spec: Any) -> None:
        cluster = Cluster.pool(1)
        table = JobTable.build([1], submit_s=[0], limit_s=[60], elapsed_s=[60], nodes=[1])
        self.store, self.word = store, word
        self.slurm = FaultySlurm(Simulation(cluster, workload(table, cluster), discipline="easy"), lambda _: program)
        self.slurm.sleep(100)
        (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -N 1\n")
        submission = Submission(str(folder / "job.sh"), {"time": "1:00:00", "nodes": "1"})
        spec = {"submission": submission, "policy": f"fickle:{word}", "grace_s": 60, "least_life": 0.0, **spec}
        self.chain: Chain = store.add_chain("train", ChainSpec(**spec), 100)
        self.agent = self.new_agent()
        self.live(300)

    def new_agent(self, point: str = "never:") -> Agent:
        return Agent(
            Mortal(self.store, point), Mortal(self.slurm, point), TrueShell(), clock=self.slurm.clock,  # type: ignore
            monotonic=self.slurm.clock, holder="me", settings=SETTINGS,
        )  # fmt: skip

    def live(self, seconds: int, revision: str = "wait") -> None:
        """Let time pass, with one revision."""
        self.word.write_text(revision)
        end = self.slurm.clock() + seconds
        while self.slurm.clock() < end:
            cycle = self.agent.cycle()
            assert cycle.trouble == ""
            self.slurm.sleep(self.agent.pause_s(cycle, 0.0))

    def revise(self, revision: str) -> None:
        """One decision; then the policy leaves everything as it is."""
        known = len(self.store.decisions(self.chain.id))
        self.word.write_text(revision)
        while len(self.store.decisions(self.chain.id)) == known:
            self.slurm.sleep(self.agent.pause_s(self.agent.cycle(), 0.0))
        self.word.write_text("leave")
        self.live(60, "leave")

    def jobs(self) -> dict[int, list[QueuedJob]]:
        """Jobs by the link of their tag, as the queue shows them."""
        found: dict[int, list[QueuedJob]] = {}
        for job in self.slurm.observe().jobs:
            if (tag := parse_tag(job.comment)) is not None:
                found.setdefault(tag.link, []).append(job)
        return found

    def next(self) -> QueuedJob:
        """The only job that waits."""
        (job,) = [job for jobs in self.jobs().values() for job in jobs if job.state is JobState.PENDING]
        return job

    def links(self) -> list[Link]:
        return self.store.links(self.chain.id)

    @property
    def revisions(self) -> list[str]:
        return [one.revision for one in self.store.decisions(self.chain.id) if one.revision]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    word = fickle.install(tmp_path, monkeypatch)
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        without_waiting_for_the_disk(store)
        yield lambda program=None, **spec: World(tmp_path, store, word, program or Program(), **spec)


def test_a_revised_chain_lives_on(make) -> None:
    world = make(links=2)
    first = world.next()
    assert first.dependency == ""
    world.revise("hold")
    assert world.next().dependency.startswith("afterany:")
    assert world.links()[1].state is LinkState.HELD
    world.revise("shorten")
    assert (world.next().limit_s, world.links()[1].limit_s) == (1_800, 1_800)
    world.revise("postpone")
    assert (world.next().dependency, world.next().eligible_s > world.slurm.now_s) == ("", True)
    world.revise("release")
    assert world.next().eligible_s <= world.slurm.now_s
    world.revise("withdraw")
    assert world.next().limit_s == 3_600
    assert world.next().dependency.startswith("afterany:"), "as it stood before it was let loose"
    assert [link.number for link in world.links()] == [1, 2, 3]
    assert world.revisions == ["hold", "shorten", "postpone", "release", "withdraw"]
    for _ in range(2):
        world.slurm.sleep(3_700)
        world.live(900)
    assert world.store.chain("train").state is ChainState.DONE
    assert [link.outcome.name for link in world.links()] == ["TIMEOUT", "CANCELLED", "TIMEOUT"]
    assert {len(jobs) for jobs in world.jobs().values()} <= {1}


@pytest.mark.parametrize("held", [True, False])
def test_the_present_link_ends_while_the_next_is_held_or_postponed(make, held: bool) -> None:
    """The agent acts where the link is postponed; where it is held, Slurm alone does."""
    world = make(Program(run_s=1_000))
    world.revise("hold" if held else "postpone")
    assert held or world.next().eligible_s > 1_800
    if held:
        world.slurm.sleep(900)
    else:
        world.live(900)
    assert world.slurm.now_s < 1_800
    assert [job.state for job in world.jobs()[2]] == [JobState.RUNNING]


POINTS = {
    "hold": ("after:update",),
    "release": ("before:update", "after:update"),
    "postpone": ("before:update", "after:update"),
    "shorten": ("before:update:2", "before:update:3"),
    "withdraw": ("before:update", "before:cancel", "after:cancel", "before:add_link", "after:attempt", "after:submit"),
}


@pytest.mark.parametrize(("revision", "point"), [(name, point) for name in POINTS for point in POINTS[name]])
def test_the_agent_is_killed_between_two_steps(make, revision: str, point: str) -> None:
    world = make()
    if revision == "release":
        world.revise("hold")
    last = world.next().id
    world.agent = world.new_agent(point)
    with pytest.raises(Killed):
        world.live(600, revision)
    world.agent = world.new_agent()
    world.live(300, "leave")
    assert {len(jobs) for jobs in world.jobs().values()} == {1}
    job, links = world.next(), world.links()
    assert (job.id > last) is (revision == "withdraw")
    assert links[-1].job == job.id
    assert [link.state for link in links if link.state is not LinkState.ENDED][1:] == [links[-1].state]
    assert links[-1].limit_s == job.limit_s
    assert world.store.chain("train").state is ChainState.ACTIVE
    world.slurm.sleep(3_700)
    assert [job.state for job in world.jobs()[links[-1].number]] == [JobState.RUNNING], "the agent is not needed"


def test_a_controller_that_is_silent_for_a_while(make) -> None:
    world = make()
    world.revise("hold")
    world.word.write_text("release")
    world.slurm.restart_controller(900)
    for _ in itertools.takewhile(lambda _: world.slurm.clock() < 2_000, itertools.count()):
        world.slurm.sleep(max(world.agent.pause_s(world.agent.cycle(), 0.0), 1.0))
    assert world.next().dependency == ""
    assert world.revisions == ["hold", "release"]
