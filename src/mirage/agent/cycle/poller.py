"""The poller: one squeue for all chains, and at most one more command a poll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.agent.chain.tag import Tag, parse_tag, tag_in_line
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
        tagged: Jobs of ours in the queue, by (chain name, link number); more than one where something went wrong.
        accounted: Jobs of the last look at accounting by id; empty where this poll did not look there.
        looked_up: Whether this poll looked at accounting.
    """

    queue: Queue
    by_id: dict[int, QueuedJob]
    tagged: dict[tuple[str, int], list[QueuedJob]]
    accounted: dict[int, AccountedJob] = field(default_factory=dict)
    accounted_tags: dict[tuple[str, int], AccountedJob] = field(default_factory=dict)
    looked_up: bool = False


class Poller:
    """The poller remembers the machine, its options and the jobs that ended."""

    def __init__(self, backend: Backend, settings: AgentSettings) -> None:
        self.backend, self.settings = backend, settings
        self.machine: Machine | None = None
        self.options: Mapping[str, str] | None = None
        self.ended: dict[int, AccountedJob] = {}
        self._machine_s = self._accounts_s = -1

    def poll(self, now_s: int, *, missing_since_s: int | None) -> Snapshot:
        """One poll.

        Args:
            now_s: The agent's clock.
            missing_since_s: Submission time of the oldest open link that the queue did not show last time; None where
                all were seen.

        Raises:
            SlurmUnreachable: No queue; what was known stays known.
        """
        queue = self.backend.observe()
        snapshot = Snapshot(queue, {job.id: job for job in queue.jobs}, {})
        for job in queue.jobs:
            if (tag := parse_tag(job.comment)) is not None:
                snapshot.tagged.setdefault((tag.chain, tag.link), []).append(job)
        self._ask_once_more(snapshot, now_s, missing_since_s)
        return snapshot

    def _ask_once_more(self, snapshot: Snapshot, now_s: int, missing_since_s: int | None) -> None:
        """The second command of this poll, the one most in need."""
        if missing_since_s is not None:
            self._account(snapshot, now_s, missing_since_s - OVERLAP_S)
        elif self.machine is None or now_s - self._machine_s >= self.settings.sight_s:
            self.machine, self._machine_s = self.backend.machine(), now_s
        elif self.options is None:
            self.options = self.backend.configuration()
        elif self._accounts_s < 0 or now_s - self._accounts_s >= self.settings.sight_s:
            since_s = now_s - self.settings.history_s if self._accounts_s < 0 else self._accounts_s - OVERLAP_S
            self._account(snapshot, now_s, since_s)

    def _account(self, snapshot: Snapshot, now_s: int, since_s: int) -> None:
        found = self.backend.accounting(since_s)
        snapshot.looked_up = True
        for job in found:
            snapshot.accounted[job.id] = job
            if (tag := _tag_of(job)) is not None:
                snapshot.accounted_tags[tag.chain, tag.link] = job
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


def _tag_of(job: AccountedJob) -> Tag | None:
    return parse_tag(job.comment) or (tag_in_line(job.submit_line) if job.submit_line else None)
