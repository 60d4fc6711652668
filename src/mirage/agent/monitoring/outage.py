"""Outages: Slurm does not answer, or the store cannot be written; shown by commands.

The agent writes its outage, with the time of its begin, into a small file of its folder. The file has its one block
from the beginning and is overwritten in place, which a full disk does not prevent. Commands that cannot read it compare
the last poll, which is in the store, with the longest time between two polls.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mirage.agent.settings import AgentSettings
from mirage.agent.store.lease import is_gone
from mirage.agent.store.protocol import Store
from mirage.duration import format_duration
from mirage.errors import shortened
from mirage.job_state import MISSING

log = logging.getLogger("mirage.agent")

SLURM, STORE, POLL = "slurm", "store", "poll"

IN_WORDS = {
    SLURM: "no contact with slurmctld",
    STORE: "the agent cannot write the store",
    POLL: "the agent has not polled the queue",
}
"""Sources of an outage."""

FILE_BYTES = 4096
LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the agent cannot work.

    Attributes:
        source: ``slurm``, ``store``, or ``poll`` where the store shows no recent poll and the reason is not known.
        since_s: The last contact before it.
        detail: The error.
    """

    source: str
    since_s: int
    detail: str = ""

    def in_words(self, now_s: float) -> str:
        """The source, its last contact, and the error."""
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self.since_s))
        ago = format_duration(max(round(now_s) - self.since_s, 0))
        return f"{IN_WORDS[self.source]} since {since} ({ago} ago)" + (f": {self.detail}" if self.detail else "")


class OutageWatch:
    """The present outage of an agent, and its retry interval.

    Args:
        holder: The agent, as its lease names it.
        file: File with the outage for commands; None for none.
        spread: Random numbers from 0 to 1: agents of one cluster must not return in the same second.
    """

    def __init__(self, settings: AgentSettings, holder: str, file: Path | None, spread: Callable[[], float]) -> None:
        self.settings, self.holder, self.file, self.spread = settings, holder, file, spread
        self.current: Outage | None = None
        self.probes_answered = 0
        self._contact_s: dict[str, int] = {}
        self._is_writable = True

    def contact(self, source: str, now_s: int) -> None:
        """Record that Slurm answered a poll, or that the store was written."""
        is_first = source == STORE and STORE not in self._contact_s
        self._contact_s[source] = now_s
        if is_first:
            self._write(now_s)

    def begin(self, source: str, detail: str, now_s: int) -> None:
        """Record that a cycle failed; an outage that continues is not logged again."""
        known = self.current
        if known is None or known.source != source:
            since_s = known.since_s if known is not None else self._contact_s.get(source, now_s)
            self.current = Outage(source, since_s, shortened(" ".join(detail.split()), LONGEST_DETAIL))
            log.warning("outage", extra={"detail": self.current.in_words(now_s)})
        self._write(now_s)

    def end(self, now_s: int) -> None:
        """Record that a cycle was complete."""
        if self.current is None:
            return
        log.info("outage-over", extra={"detail": self.current.in_words(now_s)})
        self.current, self.probes_answered = None, 0
        self._write(now_s)

    def pause_s(self) -> float:
        """The time until the next attempt.

        It grows only where Slurm answers a probe and no poll: such a controller is busy, and gets fewer requests.
        """
        pause_s = min(self.settings.probe_s, self.settings.poll_s) * (1 - self.spread() / 4)
        return float(min(pause_s * 2 ** min(max(self.probes_answered - 1, 0), 16), self.settings.longest_poll_s))

    def _write(self, now_s: int) -> None:
        """Overwrite the file in place; only an agent that has had the lease does."""
        if self.file is None or STORE not in self._contact_s:
            return
        outage = asdict(self.current) if self.current is not None else None
        state = {"holder": self.holder, "written_s": now_s, "outage": outage}
        text = json.dumps(state, ensure_ascii=False).encode("utf-8", "replace")
        try:
            number = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(number, text.ljust(FILE_BYTES), 0)
            finally:
                os.close(number)
        except OSError as error:
            if self._is_writable:
                log.warning("no state", extra={"detail": f"cannot write {self.file}: {error.strerror}"})
            self._is_writable = False
        else:
            self._is_writable = True


@dataclass(frozen=True, slots=True)
class AgentState:
    """The contents of an agent's file.

    Attributes:
        written_s: Time of the write, repeated at every attempt of an outage.
    """

    holder: str
    written_s: int
    outage: Outage | None

    @classmethod
    def read(cls, file: Path) -> AgentState | None:
        """The state in a file; None where there is none that can be read."""
        try:
            found = json.loads(file.read_bytes())
            outage = Outage(**found["outage"]) if found["outage"] is not None else None
            state = cls(str(found["holder"]), int(found["written_s"]), outage)
            return state if outage is None or outage.source in IN_WORDS else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def known_outage(store: Store, file: Path, now_s: float, settings: AgentSettings | None = None) -> Outage | None:
    """The outage of the agent with the lease; None where it works, or none runs.

    An agent that cannot write the store cannot renew its lease either. It counts while its process lives on this host,
    or, on another, while its file is fresh.

    Args:
        file: The agent's file with its outage.
    """
    settings, held = settings or AgentSettings(), store.lease()
    if held is None or is_gone(held[0]):
        return None
    holder, until_s = held
    is_here = holder.rpartition(":")[0].rpartition(":")[0] == socket.gethostname()
    state = AgentState.read(file)
    if state is not None and state.holder == holder:
        if is_here or until_s >= now_s or now_s - state.written_s <= settings.lease_s:
            return state.outage
        return None
    polled_s = store.identity().polled_s
    if until_s >= now_s and polled_s != MISSING and now_s - polled_s > 2 * settings.longest_poll_s:
        return Outage(POLL, polled_s)
    return None
