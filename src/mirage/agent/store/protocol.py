"""The agent's store: chains, links, decisions, events, and the lease of one agent.

SQLite in WAL mode by default, PostgreSQL by URL. Every method is one transaction: ``kill -9`` leaves it complete or
absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, EventRecord, Link, StoreIdentity


class Store(Protocol):
    """A store for the agent; times are the agent's own clock, seconds since 1970.

    Attributes:
        path: Its file; None on a server.
    """

    path: Path | None

    def identity(self) -> StoreIdentity:
        """The random letters in the tag of every job, and the cluster of the chains."""
        ...

    def bind(self, cluster: str) -> None:
        """Bind the store to a cluster; ``WrongCluster`` where it is bound to another."""
        ...

    def record_poll(self, now_s: int) -> None:
        """Store the time of an agent's poll of the queue."""
        ...

    def check_name(self, name: str) -> None:
        """Refuse a name that is taken, with a ``ConfigurationError``, before anything is stored."""
        ...

    def add_chain(self, name: str, spec: ChainSpec, now_s: int) -> Chain:
        """A new chain with its first link planned; ``ConfigurationError`` where the name is taken."""
        ...

    def add_adopted_chain(self, chain: Chain, link: Link, event: EventRecord) -> Chain:
        """A new chain with a first link that is a job already, in one transaction.

        ``ConfigurationError`` where the name is taken, or where the job is an open link of another chain.

        Args:
            chain: The chain with its key; its number is filled in, here and in the link and the event.
        """
        ...

    def chains(self, *, alive: bool = False) -> list[Chain]:
        """All chains in order of creation, or only those that are not done."""
        ...

    def chain(self, name: str) -> Chain:
        """The chain with a name; ``UnknownName`` lists the known ones."""
        ...

    def change_chain(
        self,
        chain: int,
        *events: EventRecord,
        from_state: ChainState | None = None,
        from_edits: int | None = None,
        **columns: object,
    ) -> bool:
        """Set columns of a chain and write events, in one transaction.

        False, and nothing is written, where the chain is not in ``from_state`` any more, or has another number of
        edits than ``from_edits``.
        """
        ...

    def change_spec(self, chain: Chain, spec: ChainSpec, *events: EventRecord) -> None:
        """Replace the specification of a chain, and let the agent submit and decide by it at once.

        ``ConfigurationError`` where another process has changed it since the chain was read.
        """
        ...

    def remove_chain(self, chain: int) -> None:
        """Remove a chain that is done, with all its data; ``ConfigurationError`` where it is not."""
        ...

    def links(self, chain: int | None = None, *, open: bool = False) -> list[Link]:
        """Links by chain and number, of one chain or of all.

        Args:
            open: Only those that have not ended, and the last three of each chain.
        """
        ...

    def add_link(self, link: Link, *events: EventRecord) -> None:
        """A new link; one with that number must not exist.

        Decisions to wait that are many links old are removed, so that a store does not grow without bound.
        """
        ...

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a link and write events, in one transaction."""
        ...

    def attempt(self, chain: int, number: int, now_s: int, edits: int) -> bool:
        """Claim the submission of a planned link: set ``attempted_s`` where it is ``MISSING``.

        Args:
            edits: Number of edits of the specification that is about to be submitted.

        Returns:
            False where another process has claimed it already, or has edited the chain since it was read.
        """
        ...

    def add_decisions(self, decisions: list[DecisionRecord]) -> None:
        """Store decisions of policies."""
        ...

    def decisions(self, chain: int, *, last: int | None = None) -> list[DecisionRecord]:
        """Decisions of a chain, in order of time."""
        ...

    def events(self, chain: int, *, last: int | None = None) -> list[EventRecord]:
        """Events of a chain, in order of time."""
        ...

    def take_lease(self, holder: str, now_s: float, valid_s: float) -> None:
        """Take or renew the lease; ``LeaseHeld`` reports its holder, host and end."""
        ...

    def drop_lease(self, holder: str) -> None:
        """Return the lease."""
        ...

    def lease(self) -> tuple[str, float] | None:
        """Holder and end of the lease; None for no lease."""
        ...

    def check_present(self) -> None:
        """Check that the store is still there; ``StoreGone`` if its file was deleted or replaced."""
        ...

    def backup_if_due(self, now_s: float) -> Path | None:
        """Make the hourly backup of a store in a file, if it is due; returns the new backup."""
        ...

    def decided_since(self, last: int) -> tuple[int, Counter[tuple[str, bool]]]:
        """The newest decision, and the counts since ``last`` by reason and submission."""
        ...

    def happened_since(self, last: int) -> tuple[int, Counter[str]]:
        """The newest event, and the counts since ``last`` by kind."""
        ...

    def events_to_notify(self, kinds: Sequence[str], after: int = 0) -> tuple[int, list[EventRecord]]:
        """The oldest events of some kinds without sent messages, and the number of the last one.

        Args:
            after: Number of an event; only later ones are given.
        """
        ...

    def record_notified(self, last: int, *events: EventRecord) -> None:
        """Store that the messages about events up to a number were sent, and write events."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
