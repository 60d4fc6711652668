"""The agent's store: chains, links, decisions, events, and the lease of one agent.

SQLite in WAL mode by default, PostgreSQL by URL. Every method is one transaction: after ``kill -9`` it has happened or
it has not.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from mirage.agent.model import Chain, ChainSpec, DecisionRecord, EventRecord, Link


class Store(Protocol):
    """A store for the agent; times are the agent's own clock, seconds since 1970."""

    def add_chain(self, name: str, spec: ChainSpec, now_s: int) -> Chain:
        """A new chain with its first link planned; ``ConfigurationError`` where the name is taken."""
        ...

    def chains(self, *, alive: bool = False) -> list[Chain]:
        """All chains in order of creation, or only those that are not done."""
        ...

    def chain(self, name: str) -> Chain:
        """By name; ``UnknownName`` lists the known ones."""
        ...

    def change_chain(self, chain: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a chain and write events, in one transaction."""
        ...

    def remove_chain(self, chain: int) -> None:
        """Remove a chain that is done, with all that is known of it; ``ConfigurationError`` where it is not."""
        ...

    def links(self, chain: int | None = None, *, open: bool = False) -> list[Link]:
        """Links by chain and number, of one chain or of all.

        Args:
            open: Only those that have not ended, and the last three of each chain.
        """
        ...

    def add_link(self, link: Link, *events: EventRecord) -> None:
        """A new link; one with that number must not exist."""
        ...

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a link and write events, in one transaction."""
        ...

    def attempt(self, chain: int, number: int, now_s: int) -> bool:
        """Claim the submission of a planned link: set ``attempted_s`` where it is ``MISSING``.

        Returns:
            False where somebody else has claimed it already.
        """
        ...

    def add_decisions(self, decisions: list[DecisionRecord]) -> None:
        """Write decisions of policies."""
        ...

    def decisions(self, chain: int, *, last: int | None = None) -> list[DecisionRecord]:
        """Of a chain, in order of time."""
        ...

    def events(self, chain: int, *, last: int | None = None) -> list[EventRecord]:
        """Of a chain, in order of time."""
        ...

    def take_lease(self, holder: str, now_s: float, valid_s: float) -> None:
        """Take or renew the lease; ``LeaseHeld`` names who has it, where, and until when."""
        ...

    def drop_lease(self, holder: str) -> None:
        """Give it back."""
        ...

    def lease(self) -> tuple[str, float] | None:
        """Holder and end of validity, if there is one."""
        ...

    def decided_since(self, last: int) -> tuple[int, Counter[tuple[str, bool]]]:
        """The newest decision, and how many since ``last`` by reason and submission."""
        ...

    def happened_since(self, last: int) -> tuple[int, Counter[str]]:
        """The newest event, and how many since ``last`` by kind."""
        ...

    def close(self) -> None:
        """Let go of all connections."""
        ...
