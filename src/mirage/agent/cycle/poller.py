"""The poller: one squeue for all chains, and at most one more command a poll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.agent.cycle.own_jobs import Key, OwnJobs, own_jobs, tag_of
from mirage.agent.settings import AgentSettings
from mirage.job_state import MISSING
from mirage.policy.view import MOST_ENDED
from mirage.slurm.backend import Backend
from mirage.slurm.values import AccountedJob, Machine, Queue, QueuedJob

OVERLAP_S = 600
"""Each look at accounting begins so long before the last one: records arrive late and half-filled."""


@dataclass(slots=True)
class Snapshot:
    """The state of the cluster after a poll.

    Attributes:
        own: Jobs of ours in the queue.
        accounted: Jobs of ours at the last look at accounting by id; empty where this poll did not look there.
        looked_up: Whether this poll looked at accounting.
    """

    queue: Queue
    own: OwnJobs = field(default_factory=OwnJobs)
    accounted: dict[int, AccountedJob] = field(default_factory=dict)
    accounted_tags: dict[Key, AccountedJob] = field(default_factory=dict)
    looked_up: bool = False

    @property
    def by_id(self) -> dict[int, QueuedJob]:
        """Jobs of our user by number."""
        return self.own.by_id


class Poller:
    """The poller remembers the machine, its options and the jobs that ended."""

    def __init__(self, backend: Backend, settings: AgentSettings) -> None:
        self.backend, self.settings = backend, settings
        self.machine: Machine | None = None
        self.options: Mapping[str, str] | None = None
        self.ended: dict[int, AccountedJob] = {}
        self._machine_s = self._accounts_s = self._options_s = -1
        self._looked_for_missing = False

    def poll(self, now_s: int, store: str, *, missing_since_s: int | None) -> Snapshot:
        """One poll.

        Args:
            now_s: The agent's clock.
            store: Identity of the store whose jobs are ours.
            missing_since_s: Submission time of the oldest open link that the queue did not show last time; None where
                all were seen.

        Raises:
            SlurmUnreachable: No queue; what was known stays known.
        """
        queue = self.backend.observe()
        snapshot = Snapshot(queue, own_jobs(queue.jobs, self.backend.user, store))
        self._ask_once_more(snapshot, now_s, store, missing_since_s)
        return snapshot

    def _ask_once_more(self, snapshot: Snapshot, now_s: int, store: str, missing_since_s: int | None) -> None:
        """The second command of this poll, the one most in need.

        The options come first, for they tell which cluster this is; a missing link takes no more than every other
        turn from what all chains need.
        """
        stale = self.machine is None or now_s - self._machine_s >= self.settings.sight_s
        if self.options is None or now_s - self._options_s >= self.settings.options_s:
            self.options, self._options_s = self.backend.configuration(), now_s
        elif missing_since_s is not None and not (stale and self._looked_for_missing):
            self._looked_for_missing = True
            self._account(snapshot, now_s, store, missing_since_s - OVERLAP_S)
        elif stale:
            self._looked_for_missing = False
            self.machine, self._machine_s = self.backend.machine(), now_s
        elif self._accounts_s < 0 or now_s - self._accounts_s >= self.settings.sight_s:
            since_s = now_s - self.settings.history_s if self._accounts_s < 0 else self._accounts_s - OVERLAP_S
            self._account(snapshot, now_s, store, since_s)

    def _account(self, snapshot: Snapshot, now_s: int, store: str, since_s: int) -> None:
        found = self.backend.accounting(since_s)
        snapshot.looked_up = True
        for job in found:
            tag = tag_of(job) if job.user == self.backend.user else None
            if job.user == self.backend.user and (tag is None or tag.store == store):
                snapshot.accounted[job.id] = job
            if tag is not None and tag.store == store:
                snapshot.accounted_tags[tag.key, tag.link] = job
            if MISSING not in (job.end_s, job.start_s):
                self.ended.pop(job.id, None)
                self.ended[job.id] = job
        if self._accounts_s >= 0 or since_s <= now_s - self.settings.history_s:
            self._accounts_s = now_s
        for old in list(self.ended)[: max(len(self.ended) - MOST_ENDED, 0)]:
            del self.ended[old]

    @property
    def complete(self) -> bool:
        """Whether policies can be asked: the machine and its options are known."""
        return self.machine is not None and self.options is not None
