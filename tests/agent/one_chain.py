"""One chain and its links at one moment, without a cluster: what a cycle does about them can be read off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.poller import Snapshot
from mirage.agent.model import Chain, ChainSpec, EventRecord, Link, LinkState
from mirage.agent.settings import AgentSettings
from mirage.errors import SlurmRefused
from mirage.job_state import JobState
from mirage.slurm.values import AccountedJob, Queue, QueuedJob, Submission

NOW_S = 10_000


class Notebook:
    """A store that keeps one chain in memory."""

    def __init__(self, chain: Chain, links: list[Link]) -> None:
        self.chain, self.rows, self.told = chain, {link.number: link for link in links}, []

    def change_chain(self, chain: int, *events: EventRecord, **columns: Any) -> None:
        assert chain == self.chain.id
        self.chain = replace(self.chain, **columns)
        self.told += events

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: Any) -> None:
        assert chain == self.chain.id
        self.rows[number] = replace(self.rows[number], **columns)
        self.told += events

    def add_link(self, link: Link, *events: EventRecord) -> None:
        assert link.number not in self.rows
        self.rows[link.number] = link
        self.told += events


class Slurm:
    """Writes down what it is told."""

    def __init__(self, refuses_release: str = "") -> None:
        self.calls: list[tuple[object, ...]] = []
        self.refuses_release = refuses_release

    def cancel(self, job: int) -> None:
        self.calls.append(("cancel", job))

    def signal(self, job: int, name: str) -> None:
        self.calls.append(("signal", job, name))

    def release(self, job: int) -> None:
        if self.refuses_release:
            raise SlurmRefused(self.refuses_release)
        self.calls.append(("release", job))


class OneChain:
    """The chain ``train``, number 1, in a cycle at ``NOW_S``."""

    def __init__(
        self, *links: Link, chain: dict[str, Any] | None = None, settings: AgentSettings | None = None, **spec: Any
    ) -> None:
        spec = {"submission": Submission("job.sh", directory="/home/ada"), **spec}
        started = Chain(1, "train", ChainSpec(**spec), 0, **(chain or {}))
        self.store, self.slurm = Notebook(started, list(links)), Slurm()
        self.context = CycleContext(
            self.store, self.slurm, settings or AgentSettings(), NOW_S, Snapshot(Queue(NOW_S, ()), {}, {}),
            {1: started}, {1: list(links)} if links else {},
        )  # fmt: skip

    def shows(self, *jobs: QueuedJob, ended: tuple[AccountedJob, ...] = (), looked_up: bool = False) -> OneChain:
        """The queue and accounting as the poller has seen them; tags are those of link 1, 2 … by job comment."""
        tagged: dict[tuple[str, int], list[QueuedJob]] = {}
        for job in jobs:
            if job.comment:
                _, name, number = job.comment.split(":")
                tagged.setdefault((name, int(number)), []).append(job)
        tags = {("train", int(job.comment.rpartition(":")[2])): job for job in ended if job.comment}
        queue, by_id = Queue(NOW_S, jobs), {job.id: job for job in jobs}
        self.context.snapshot = Snapshot(
            queue, by_id, tagged, {job.id: job for job in ended}, tags, looked_up=looked_up or bool(ended)
        )
        return self

    @property
    def chain(self) -> Chain:
        """As it is now, in the store and in the cycle alike."""
        assert self.store.chain == self.context.chains[1]
        return self.store.chain

    @property
    def links(self) -> list[Link]:
        """As they are now, in the store and in the cycle alike."""
        stored = [self.store.rows[number] for number in sorted(self.store.rows)]
        assert stored == self.context.links.get(1, [])
        return stored

    @property
    def events(self) -> list[tuple[int, str, str]]:
        """Link, kind and detail of everything that was written; all of it now, and of this chain."""
        assert {(event.chain, event.time_s) for event in self.store.told} <= {(1, NOW_S)}
        return [(event.link, event.kind, event.detail) for event in self.store.told]


def planned(number: int, **known: Any) -> Link:
    return Link(1, number, **known)


def held(number: int, **known: Any) -> Link:
    return Link(1, number, LinkState.HELD, **{"job": 100 + number, "attempted_s": 50, "submitted_s": 50, **known})


def queued(number: int, **known: Any) -> Link:
    return replace(held(number, **{"released_s": 60, **known}), state=LinkState.QUEUED)


def running(number: int, **known: Any) -> Link:
    return replace(queued(number, **{"started_s": 9_000, "limit_s": 3_600, **known}), state=LinkState.RUNNING)


def ended(number: int, outcome: JobState = JobState.TIMEOUT, **known: Any) -> Link:
    known = {"started_s": 5_000, "ended_s": 8_600, **known}
    return replace(running(number, **known), state=LinkState.ENDED, outcome=outcome)
