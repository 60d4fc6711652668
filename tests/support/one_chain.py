"""One chain and its links at one moment, without a cluster, to test a cycle's actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from mirage.agent.chain.tag import Tag
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.own_jobs import own_jobs, tag_of
from mirage.agent.cycle.poller import Snapshot
from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, EventRecord, Link, LinkState, StoreIdentity
from mirage.agent.settings import AgentSettings
from mirage.agent.store.protocol import Store
from mirage.errors import SlurmRefused
from mirage.job_state import JobState
from mirage.slurm.backend import Backend
from mirage.slurm.records import AccountedJob, Machine, Node, Queue, QueuedJob, SlurmPartition, Submission

NOW_S = 10_000
USER, STORE, KEY = "ada", "safestre", "deer"
"""Whose the chain is, and the random letters of its store and its own."""

MACHINE = Machine(
    (
        Node("n1", "idle", True, 64, 4, ("gpu",)),
        Node("n2", "mixed", True, 64, 4, ("gpu",)),
        Node("n3", "idle", True, 64, 8, ("gpu", "big")),
        Node("n4", "idle", True, 32, 4, ("gpu",)),  # smaller
        Node("n5", "down", False, 64, 4, ("gpu",)),
        Node("n6", "idle", True, 64, 4, ("debug",)),
    ),
    (
        SlurmPartition("gpu", True, 100, 100, ("n1", "n2", "n3", "n4", "n5")),
        SlurmPartition("big", False, 100, 100, ("n3",)),
        SlurmPartition("debug", False, 100, 100, ("n6",)),
    ),
)
"""Nodes and partitions of a small cluster."""


def tagged(link: int, words: str = "", *, store: str = STORE, key: str = KEY) -> str:
    """The comment of a link's job, with what the job has added to it."""
    return f"{Tag('train', link, store, key)}{words and ' '}{words}"


class Notebook:
    """A store with its chains in memory."""

    def __init__(self, chain: Chain, links: list[Link]) -> None:
        self.chains = {chain.id: chain}
        self.rows = {(link.chain, link.number): link for link in links}
        self.reported: list[EventRecord] = []
        self.decided: list[DecisionRecord] = []

    def identity(self) -> StoreIdentity:
        return StoreIdentity(STORE)

    def change_chain(
        self, chain: int, *events: EventRecord, from_state: ChainState | None = None, from_edits: int | None = None,
        **columns: Any,
    ) -> bool:  # fmt: skip
        known = self.chains[chain]
        if from_state not in (None, known.state) or from_edits not in (None, known.edits):
            return False
        self.chains[chain] = replace(self.chains[chain], **columns)
        self.reported += events
        return True

    def chain(self, name: str) -> Chain:
        (found,) = (chain for chain in self.chains.values() if chain.name == name)
        return found

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: Any) -> None:
        self.rows[chain, number] = replace(self.rows[chain, number], **columns)
        self.reported += events

    def attempt(self, chain: int, number: int, now_s: int, edits: int) -> bool:
        self.change_link(chain, number, attempted_s=now_s)
        return True

    def links(self, chain: int, *, open: bool = False) -> list[Link]:
        return [self.rows[key] for key in sorted(self.rows) if key[0] == chain]

    def add_link(self, link: Link, *events: EventRecord) -> None:
        assert (link.chain, link.number) not in self.rows
        self.rows[link.chain, link.number] = link
        self.reported += events

    def events(self, chain: int, *, last: int | None = None) -> list[EventRecord]:
        return [event for event in self.reported if event.chain == chain]

    def add_decisions(self, decisions: list[DecisionRecord]) -> None:
        self.decided += decisions


class Slurm:
    """Records its calls, except refused ones: a command, or a command, its job, and the words."""

    user = USER

    def __init__(self, **refuses: str) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.refuses: dict[str | tuple[str, object], str] = dict(refuses.items())

    def _reported(self, command: str, job: object, *more: object) -> None:
        if why := self.refuses.get(command) or self.refuses.get((command, job)):
            raise SlurmRefused(why)
        self.calls.append((command, job, *more))

    def cancel(self, job: int | Sequence[int], *, only_pending: bool = False) -> None:
        for number in [job] if isinstance(job, int) else job:
            self._reported("cancel", number, *(["only pending"] if only_pending else []))

    def signal(self, job: int | Sequence[int], name: str, *, to_batch_shell: bool = False) -> None:
        for number in [job] if isinstance(job, int) else job:
            self._reported("signal", number, name, *(["batch shell"] if to_batch_shell else []))

    def signal_steps(self, job: int | Sequence[int], name: str) -> None:
        for number in [job] if isinstance(job, int) else job:
            self._reported("signal", number, name, "steps")

    def release(self, job: int) -> None:
        self._reported("release", job)

    def update(self, job: int | list[int], changes: dict[str, str]) -> None:
        for number in [job] if isinstance(job, int) else job:
            self._reported("update", number, changes)


class OneChain:
    """The chain ``train``, number 1, in a cycle at ``NOW_S``."""

    def __init__(
        self, *links: Link, chain: dict[str, Any] | None = None, settings: AgentSettings | None = None, **spec: Any
    ) -> None:
        spec = {"submission": Submission("job.sh", directory="/home/ada"), **spec}
        started = Chain(1, "train", ChainSpec(**spec), 0, **{"key": KEY, **(chain or {})})
        self.store, self.slurm = Notebook(started, list(links)), Slurm()
        self.context = CycleContext(
            cast(Store, self.store), cast(Backend, self.slurm), settings or AgentSettings(), NOW_S,
            Snapshot(Queue(NOW_S, ())), {1: started}, {1: list(links)} if links else {},
        )  # fmt: skip

    def shows(self, *jobs: QueuedJob, ended: tuple[AccountedJob, ...] = (), has_accounting: bool = False) -> OneChain:
        """The queue and accounting after a poll; jobs without an owner are ours."""
        jobs = tuple(replace(job, user=job.user or USER) for job in jobs)
        tags = {(tag.key, tag.link): job for job in ended if (tag := tag_of(job)) is not None}
        self.context.snapshot = Snapshot(
            Queue(NOW_S, jobs), own_jobs(jobs, USER, STORE), {job.id: job for job in ended}, tags,
            has_accounting=has_accounting or bool(ended),
        )  # fmt: skip
        return self

    def other(self, number: int, *links: Link, **known: Any) -> Chain:
        """Another chain of the store, with its links."""
        chain = Chain(number, f"other-{number}", known.pop("spec", self.chain.spec), 0, **known)
        self.store.chains[number] = self.context.chains[number] = chain
        self.context.links[number] = [replace(link, chain=number) for link in links]
        self.store.rows |= {(number, link.number): link for link in self.context.links[number]}
        return chain

    @property
    def chain(self) -> Chain:
        """As it is now, in the store and in the cycle alike."""
        assert self.store.chains == self.context.chains
        return self.store.chains[1]

    @property
    def links(self) -> list[Link]:
        """As they are now, in the store and in the cycle alike."""
        stored = [self.store.rows[key] for key in sorted(self.store.rows) if key[0] == 1]
        assert stored == self.context.links.get(1, [])
        return stored

    @property
    def events(self) -> list[tuple[int, str, str]]:
        """Link, kind and detail of everything that was written; all of it now, and of this chain."""
        assert {(event.chain, event.time_s) for event in self.store.reported} <= {(1, NOW_S)}
        return [(event.link, event.kind, event.detail) for event in self.store.reported]

    @property
    def trouble(self) -> str:
        """The problem of the chain in this cycle."""
        return self.context.troubles.get(1, "")


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


def job(number: int, state: JobState = JobState.RUNNING, link: int = 0, words: str = "", **known: Any) -> QueuedJob:
    """A job in the queue, with the tag of a link of the chain where one is given."""
    comment = tagged(link, words) if link else ""
    return QueuedJob(number, state, **{"comment": comment, "submit_s": 50, "eligible_s": 60, **known})


def shown(*links: Link, **spec: Any) -> OneChain:
    """A chain with its links in the queue."""
    return OneChain(*links, **spec).shows(*(job(link.job, link=link.number) for link in links if link.job > 0))
