"""Walls: the time from which reservations leave too few nodes for a link.

Slurm starts no job with a limit that reaches into a reservation of the nodes it needs (``ReqNodeNotAvail, Reserved for
maintenance``). A link is blocked only if too few other nodes are left to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.duration import DAY_S, HOUR_S
from mirage.slurm.records import Machine, QueuedJob, SlurmReservation
from mirage.slurm_words.hostlist import expand_hosts

HORIZON_S = 60 * DAY_S
"""Recurring reservations are followed up to this time ahead."""

MOST_STEPS = 1_000

FRIDAY, SATURDAY, SUNDAY = 4, 5, 6
"""Days of the week of ``time.struct_time``."""

_LEFT_BY_RESERVATION = ("maint", "resv", "reserved")
"""Beginnings of Slurm's words for a node that only a reservation withholds."""


@dataclass(frozen=True, slots=True)
class ReservationWall:
    """The time in which no link can run, because of a reservation.

    Attributes:
        reservation: The reservation that leaves too few nodes; of a recurring one, the occurrence.
        until_s: The time from which enough nodes are there again, seconds since 1970.
        is_own: Whether the wall is the end of the reservation in which the links run.
    """

    reservation: SlurmReservation
    until_s: int
    is_own: bool = False

    @property
    def begin_s(self) -> int:
        """The time before which a link must end."""
        return self.reservation.start_s


@dataclass(frozen=True, slots=True)
class LinkNodes:
    """The nodes on which a link can run, and the reservations that can withhold them.

    Attributes:
        count: Number of nodes that it needs.
        choices: Suitable nodes, one set for each partition; of one of them it needs ``count``.
        reservations: Reservations in which it may not run.
        own: The reservation in which it runs (``--reservation``); None for none.
    """

    count: int
    choices: tuple[frozenset[str], ...]
    reservations: tuple[SlurmReservation, ...]
    own: SlurmReservation | None = None

    @property
    def any_reservation_blocks(self) -> LinkNodes:
        """These nodes for a link that needs all of them."""
        return replace(self, count=max(map(len, self.choices), default=0))

    def first_wall(self, start_s: int, limit_s: int) -> ReservationWall | None:
        """The first wall of a link; None where it can run from its start to its limit.

        Args:
            start_s: Its start, seconds since 1970.
            limit_s: Its time limit, seconds.
        """
        taken: set[str] = set()
        end_s = start_s + min(limit_s, HORIZON_S)
        for one in sorted(self._known_until(end_s), key=lambda known: known.start_s):
            if one.end_s > start_s and one.start_s < end_s:
                taken.update(one.nodes)
                if not self._enough(taken):
                    return ReservationWall(one, self._free_again_s(max(one.start_s, start_s)))
        if self.own is not None and start_s < self.own.end_s < end_s and "FLEX" not in self.own.flags:
            ended = replace(self.own, start_s=self.own.end_s)
            return ReservationWall(ended, self.own.end_s, is_own=True)
        return None

    def _enough(self, taken: set[str]) -> bool:
        return any(len(hosts - taken) >= self.count for hosts in self.choices)

    def _free_again_s(self, time_s: int) -> int:
        """The first time from an instant on at which enough nodes are not reserved."""
        known = list(self._known_until(time_s + HORIZON_S))
        for _ in range(MOST_STEPS):
            active = [one for one in known if one.start_s <= time_s < one.end_s]
            if self._enough({node for one in active for node in one.nodes}):
                break
            time_s = min(one.end_s for one in active)
        return time_s

    def _known_until(self, end_s: int) -> Iterator[SlurmReservation]:
        for reservation in self.reservations:
            yield from occurrences(reservation, end_s)


def occurrences(reservation: SlurmReservation, until_s: int) -> Iterator[SlurmReservation]:
    """A reservation, and its repetitions that begin before a time.

    As in slurmctld, days are those of the local clock.
    """
    lasts_s, start_s = reservation.end_s - reservation.start_s, reservation.start_s
    for _ in range(MOST_STEPS):
        yield replace(reservation, start_s=start_s, end_s=start_s + lasts_s)
        following_s = _next_start_s(start_s, reservation.flags)
        if not start_s < following_s < until_s:
            return
        start_s = following_s


def _next_start_s(start_s: int, flags: Sequence[str]) -> int:
    """The start of the next occurrence; the same start where there is none."""
    day = time.localtime(start_s).tm_wday
    if "HOURLY" in flags:
        return start_s + HOUR_S
    if "DAILY" in flags:
        days = 1
    elif "WEEKDAY" in flags:
        days = {FRIDAY: 3, SATURDAY: 2}.get(day, 1)
    elif "WEEKEND" in flags:
        days = 1 if day == SATURDAY else SATURDAY - day if day != SUNDAY else 6
    elif "WEEKLY" in flags:
        days = 7
    else:
        return start_s
    local = time.localtime(start_s)
    moved = (local.tm_year, local.tm_mon, local.tm_mday + days, local.tm_hour, local.tm_min, local.tm_sec, 0, 0, -1)
    return int(time.mktime(moved))


def link_nodes(
    machine: Machine,
    reservations: Sequence[SlurmReservation],
    options: Mapping[str, str | None],
    job: QueuedJob | None,
    *,
    count: int,
    excluded: Iterable[str],
    user: str,
    now_s: int,
) -> LinkNodes | None:
    """The nodes for a link; None where they cannot be known, or where too few are in service.

    Args:
        machine: Nodes and partitions.
        reservations: All known reservations.
        options: The effective options of its sbatch.
        job: Its job, or that of an earlier link; None for none.
        count: Number of nodes that it needs.
        excluded: Nodes on which it does not run.
        user: Its user.
    """
    named = options.get("partition") or (job.partition if job is not None else "")
    wanted = [name for name in named.split(",") if name]
    partitions = [one for one in machine.partitions if one.name in wanted or (not wanted and one.default)]
    whole = "exclusive" in options or (job is not None and job.whole_nodes) or any(p.whole_nodes for p in partitions)
    own = _own(reservations, options)
    blocking = tuple(one for one in reservations if _blocks(one, options, own, user, job, whole))
    covered = {node for one in reservations if one.start_s <= now_s < one.end_s for node in one.nodes}
    gpus, cpus = (0, 0) if job is None else (-(-job.gpus // job.nodes), -(-job.cpus // job.nodes))
    fitting = {
        node.name
        for node in machine.nodes
        if (node.usable or node.name in covered or node.state.startswith(_LEFT_BY_RESERVATION))
        and node.gpus >= gpus
        and node.cpus >= cpus
    }
    fitting -= set(excluded)
    if own is not None and "FLEX" not in own.flags:
        fitting &= set(own.nodes)
    choices = [frozenset(fitting.intersection(partition.nodes)) for partition in partitions]
    if hosts := frozenset(_hosts(options.get("nodelist") or "")):
        choices, count = [hosts & choice for choice in choices], len(hosts)
    nodes = LinkNodes(count, tuple(choices), blocking, own)
    return nodes if any(len(choice) >= count for choice in choices) else None


def _hosts(nodelist: str) -> list[str]:
    """The hosts that ``--nodelist`` names; none where it names a file of them."""
    return [] if "/" in nodelist else expand_hosts(nodelist)


def _own(reservations: Sequence[SlurmReservation], options: Mapping[str, str | None]) -> SlurmReservation | None:
    names = (options.get("reservation") or "").split(",")
    return next((one for one in reservations if one.name in names), None)


def _blocks(
    one: SlurmReservation,
    options: Mapping[str, str | None],
    own: SlurmReservation | None,
    user: str,
    job: QueuedJob | None,
    whole: bool,
) -> bool:
    """Whether jobs with these options cannot use the nodes of a reservation.

    The rules are those of slurmctld's ``job_test_resv``.
    Its users and accounts do not matter: their jobs, too, must name it, unless it is ``MAGNETIC``.
    """
    if one.name in (options.get("reservation") or "").split(",") or (one.partial and not whole):
        return False
    if one.lends and "R" in (options.get("signal") or "").partition(":")[0] and ":" in str(options.get("signal")):
        return False
    if "MAGNETIC" in one.flags and (user in one.users or (job is not None and job.account in one.accounts)):
        return False
    if own is not None and "MAINT" in own.flags:
        return False
    return not (own is not None and "OVERLAP" in own.flags and "MAINT" not in one.flags)
