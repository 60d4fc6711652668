"""Protocols of evaluation: windows, warm-up of the queue, decision times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError, shown
from mirage.provision.link_size import LinkSize
from mirage.whole_numbers import make_whole

LINK_USERS = {"newcomer": None, "light": 0.1, "median": 0.5, "heavy": 0.9}
"""The users that links can belong to, by the quantile of their use among the users of the trace; a newcomer has
submitted nothing but the links."""

NAMED_USER = "user:"
"""Begins the name of a user of the trace, as in ``user:ada``."""


@dataclass(frozen=True, slots=True)
class EvaluationProtocol:
    """How a chain is evaluated on a trace.

    A window begins at ``begin_s + i·every_s``; the predecessor is submitted ``lead_in_s`` later. The queue it meets
    is that of a replay from ``warm_up_s`` before that (None: from the beginning of the trace, once for all windows).

    At a later hand-over than the first, the chain begins earlier by the time limits of the links before the
    predecessor. Each of these is submitted when the last has ended, so the predecessor is submitted later than above by
    their waits.

    Attributes:
        name: ``published`` or ``warm``.
        begin_s: First window.
        windows: Number of windows.
        every_s: Time between windows.
        lead_in_s: From the beginning of a window to the submission of the predecessor.
        warm_up_s: Time that the machine has run by then, from empty.
        arrivals_s: Jobs submitted later than this after the beginning of the window are left out; None: none are.
        step_s: Time between decisions.
        link_user: Owner of the links: one of ``LINK_USERS``, or ``user:NAME`` for a user of the trace.
        hand_over: Number of the hand-over that is evaluated, from 1.
    """

    name: str
    begin_s: int
    windows: int = 156
    every_s: int = 4 * HOUR_S
    lead_in_s: int = 2 * DAY_S
    warm_up_s: int | None = None
    arrivals_s: int | None = None
    step_s: int = 30 * MINUTE_S
    link_user: str = "newcomer"
    hand_over: int = 1

    def __post_init__(self) -> None:
        if self.name not in ("published", "warm"):
            raise ConfigurationError(f"unknown protocol {shown(self.name)}; use warm or published")
        if self.link_user not in LINK_USERS and not self.link_user.startswith(NAMED_USER):
            words = ", ".join(LINK_USERS)
            raise ConfigurationError(f"unknown user {shown(self.link_user)} of links; use {words}, or user:NAME")
        make_whole(self, "begin_s", "windows", "every_s", "lead_in_s", "warm_up_s", "arrivals_s", "step_s", "hand_over")
        for name in ("every_s", "lead_in_s", "warm_up_s", "arrivals_s", "step_s"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; give 0 or more")
        if self.hand_over < 1:
            raise ConfigurationError(f"hand-overs are numbered from 1, got {self.hand_over}")

    @classmethod
    def published(cls, begin_s: int, **changes: Any) -> Self:
        """The protocol of the published code.

        It starts two days earlier from an empty machine, has arrivals of five days, and decides every ten minutes.
        """
        base = cls("published", begin_s, warm_up_s=2 * DAY_S, arrivals_s=5 * DAY_S, step_s=10 * MINUTE_S)
        return replace(base, **changes)

    @classmethod
    def warm(cls, begin_s: int, **changes: Any) -> Self:
        """A warm queue: one replay of the whole trace, forked at each window."""
        return replace(cls("warm", begin_s), **changes)

    @classmethod
    def named(cls, name: str, begin_s: int, **changes: Any) -> Self:
        """Returns a protocol by its name.

        Raises:
            ConfigurationError: The name is unknown.
        """
        if name == "published":
            return cls.published(begin_s, **changes)
        return replace(cls(name, begin_s), **changes)

    def submits_s(self, window: int) -> int:
        """When the predecessor of a window is submitted."""
        return self.begin_s + window * self.every_s + self.lead_in_s

    def early_s(self, links: Iterable[LinkSize]) -> int:
        """Time from the start of the longest chain to the window's earliest predecessor."""
        return (self.hand_over - 1) * max((link.limit_s for link in links), default=0)
