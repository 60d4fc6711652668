"""The context of a cycle: the values that every part of it uses."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirage.agent.cycle.own_jobs import is_of_link
from mirage.agent.cycle.poller import Snapshot
from mirage.agent.model import WAITING, Chain, EventRecord, Link, LinkState
from mirage.agent.paths import agentless_folder
from mirage.agent.settings import AgentSettings
from mirage.agent.store.protocol import Store
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING
from mirage.slurm.backend import Backend
from mirage.slurm.records import Machine, QueuedJob, SlurmReservation

log = logging.getLogger("mirage.agent")


@dataclass(slots=True)
class CycleContext:
    """The state of one cycle: store, cluster, time and snapshot.

    Attributes:
        links: Links by chain id, in order: those that have not ended, and the last ones that did.
        troubles: Problems of this cycle as text, by chain id.
        margin_s: Time by which a signal is sent earlier than needed.
        signals: Links to signal at the end of this cycle.
        endings: Links to end at the end of this cycle, because their grace is over.
        unanswered: Number of such commands in a row without an answer.
        folder: The agent's folder; None for the folder of each chain's submission.
        machine: Nodes and partitions as last queried; None before.
        reservations: Reservations as last queried.
    """

    store: Store
    backend: Backend
    settings: AgentSettings
    now_s: int
    snapshot: Snapshot
    chains: dict[int, Chain]
    links: dict[int, list[Link]] = field(default_factory=dict)
    troubles: dict[int, str] = field(default_factory=dict)
    margin_s: int = 0
    signals: list[tuple[Chain, Link]] = field(default_factory=list)
    endings: list[tuple[Chain, Link]] = field(default_factory=list)
    unanswered: int = 0
    folder: Path | None = None
    machine: Machine | None = None
    reservations: tuple[SlurmReservation, ...] = ()

    def event(self, chain: int, link: int, kind: str, detail: str = "") -> EventRecord:
        """An event at the time of this cycle."""
        return EventRecord(chain, link, self.now_s, kind, detail)

    def change_chain(self, chain: Chain, *events: EventRecord, **columns: Any) -> Chain:
        """Change a chain in the store, then here.

        Where a command has changed its state since it was read, no new state is set; the chain is as in the store.
        Where one has edited it, its next decision stays due at once.
        """
        known = self.chains[chain.id]
        from_state = known.state if "state" in columns else None
        from_edits = known.edits if "next_decision_s" in columns else None
        if self.store.change_chain(chain.id, *events, from_state=from_state, from_edits=from_edits, **columns):
            self._log(events)
            changed = replace(known, **columns)
        else:
            changed = self.store.chain(known.name)
        self.chains[chain.id] = changed
        return changed

    def change_link(self, link: Link, *events: EventRecord, **columns: Any) -> Link:
        """Change a link in the store, then here."""
        self.store.change_link(link.chain, link.number, *events, **columns)
        self._log(events)
        changed = replace(link, **columns)
        row = self.links[link.chain]
        row[next(k for k, known in enumerate(row) if known.number == link.number)] = changed
        return changed

    def add_link(self, link: Link, *events: EventRecord) -> None:
        """A new link, in the store, then here."""
        self.store.add_link(link, *events)
        self._log(events)
        self.links.setdefault(link.chain, []).append(link)

    def of(self, chain: Chain, *states: LinkState) -> list[Link]:
        """Links of a chain in some states, in order."""
        return [link for link in self.links.get(chain.id, ()) if link.state in states]

    def next_links(self, chain: Chain) -> list[Link]:
        """The links that follow the newest running one and have not started, in order.

        A link with a lower number that waits again, after a requeue, is none of them.
        """
        running = self.of(chain, LinkState.RUNNING)
        after = running[-1].number if running else 0
        return [link for link in self.of(chain, *WAITING) if link.number > after]

    def agentless_link(self, chain: Chain) -> Link | None:
        """The link by which a chain continues without its agent; None while there is none.

        Its script has written the number of its job into the folder of the chain without an agent.
        """
        if not chain.spec.agentless:
            return None
        try:
            found = re.match(r"job=(\d+)", (self.agentless_folder(chain) / "link.1").read_text())
        except OSError:
            return None
        row = self.links.get(chain.id, ())
        return next((link for link in row if found is not None and link.job == int(found[1])), None)

    def agentless_folder(self, chain: Chain) -> Path:
        """The folder in which a chain continues without its agent."""
        return agentless_folder(self.folder if self.folder is not None else Path(chain.spec.folder), chain.name)

    def awaits_start(self, chain: Chain) -> bool:
        """Whether polls must find the start of a queued link, as nothing ends the sleep."""
        return self.settings.notice_s == MISSING and bool(self.of(chain, LinkState.QUEUED))

    def job_of(self, chain: Chain, link: Link) -> QueuedJob | None:
        """The job of a link in the queue; None where it is absent, or another job has its number."""
        job = self.snapshot.by_id.get(link.job) if link.job != MISSING else None
        return job if job is not None and is_of_link(job, chain, link) else None

    def trouble(self, chain: Chain, what: str) -> None:
        """Record a problem of a chain, unless it has one already; commands show it."""
        self.troubles.setdefault(chain.id, what)

    def cancel(self, chain: Chain, job: int, why: str, *, only_pending: bool = False) -> bool:
        """Cancel a job; False where Slurm refuses, which becomes the chain's problem."""
        try:
            self.backend.cancel(job, only_pending=only_pending)
        except SlurmRefused as error:
            self.trouble(chain, f"job {job} cannot be cancelled ({why}): {error}")
            return False
        return True

    def _log(self, events: tuple[EventRecord, ...]) -> None:
        for event in events:
            chain = self.chains.get(event.chain)
            log.info(
                event.kind,
                extra={"chain": chain.name if chain else event.chain, "link": event.link, "detail": event.detail},
            )
