"""The size of the next link before a reservation: short enough to end before it begins.

If the limit of a link reaches into a reservation that leaves too few nodes, Slurm does not start the link. So it gets a
shorter limit, with ``sbatch --time`` or, while it waits, with ``scontrol update``. While it is held, it is sized for a
start at the end of the running link: if the agent dies, Slurm starts it then. It is sized again as it is released,
because it may start at once, and while it waits, in few steps.

Where the chain would gain less than the shortest link, the next link gets its usual limit, and waits for the end of the
reservation. The chain stores the time in which no link can run. A message about it is due once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirage.agent.chain.budget import budget_of, next_size
from mirage.agent.chain.history import requested_nodes
from mirage.agent.chain.spec_check import limit_s as given_limit_s
from mirage.agent.chain.spec_check import shortest_link_s
from mirage.agent.chain.submission import effective_options, excluded_nodes, script_of
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import clock_of
from mirage.agent.cycle.transitions import RESERVED
from mirage.agent.decision.reservation_wall import LinkNodes, ReservationWall, link_nodes
from mirage.agent.decision.revision import waits_no_more
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.duration import MINUTE_S, UNLIMITED_S, format_duration
from mirage.errors import ConfigurationError, SlurmRefused
from mirage.job_state import MISSING
from mirage.slurm.records import QueuedJob
from mirage.slurm_words.hostlist import expand_hosts

RESERVED_OVER, SIZED, SIZED_BACK, NOT_SIZED = "reserved-over", "sized", "sized-back", "size-refused"
"""Kinds of events."""

SLACK_SHARE, MOST_SLACK_S = 10, 30 * MINUTE_S
"""A tenth of the time up to a reservation, and at most half an hour, is left for the wait of the link."""

_RESERVED_REASON = "ReqNodeNotAvail"


@dataclass(frozen=True, slots=True)
class ReservedTime:
    """The time in which a reservation lets no link of a chain run.

    Attributes:
        from_s: Its begin, seconds since 1970.
        until_s: Its end, seconds since 1970.
        name: Name of the reservation.
    """

    from_s: int
    until_s: int
    name: str

    def __str__(self) -> str:
        return f"{self.from_s} {self.until_s} {self.name}"

    @classmethod
    def of(cls, text: str) -> ReservedTime | None:
        """The time that was stored as a text; None for an empty one."""
        if not text:
            return None
        from_s, until_s, name = text.split(" ", 2)
        return cls(int(from_s), int(until_s), name)

    @property
    def in_words(self) -> str:
        """One line for people."""
        return f"no job can run from {clock_of(self.from_s)} to {clock_of(self.until_s)}: reservation {self.name}"


def size_before(wall_s: int, start_s: int, every_s: int) -> int:
    """The limit of a link that ends before a reservation, in whole minutes, seconds.

    Args:
        wall_s: Begin of the reservation.
        start_s: Expected start of the link.
        every_s: Time between two cycles of the agent.
    """
    left_s = wall_s - start_s
    slack_s = max(min(left_s // SLACK_SHARE, MOST_SLACK_S), MINUTE_S, every_s)
    return max(left_s - slack_s, 0) // MINUTE_S * MINUTE_S


class LinkSizing:
    """The sizes of next links before reservations.

    Attributes:
        options: Effective options of each chain by its number, and the number of its edits.
        refused: Time and message of the last refusal, by chain and link.
    """

    def __init__(self) -> None:
        self.options: dict[int, tuple[int, Mapping[str, str | None]]] = {}
        self.refused: dict[tuple[int, int], tuple[int, str]] = {}

    def update(self, context: CycleContext, chain: Chain, release_s: int = MISSING) -> Chain:
        """The chain after its next link got a limit that fits before the next reservation.

        Args:
            release_s: The time at which its held link is about to be released; ``MISSING`` while it is not.

        Raises:
            SlurmUnreachable: No answer; the next cycle tries again.
        """
        waiting = context.next_links(chain)
        if chain.state is not ChainState.ACTIVE or not waiting:
            return context.change_chain(chain, reserved="") if chain.reserved else chain
        link = waiting[0]
        if link.state is LinkState.PLANNED and link.attempted_s != MISSING:  # sbatch may have made it with this limit
            return chain
        if not (context.reservations or chain.reserved or chain.spec.budget_node_h or link.shortened_from_s != MISSING):
            return chain
        nodes = self._nodes(context, chain, link)
        usual_s = self._usual_limit_s(context, chain, link) if nodes is not None else MISSING
        if nodes is None or usual_s <= 0:
            self._follow_edit(context, chain, link)
            known = ReservedTime.of(chain.reserved)
            is_over = known is not None and known.until_s <= context.now_s
            return _with_reserved(context, chain, None) if is_over else chain
        busy_until_s = _busy_until_s(context, chain, link)
        start_s = busy_until_s if link.state is not LinkState.QUEUED else max(context.now_s, link.begins_s)
        start_s = start_s if release_s == MISSING else max(context.now_s, release_s)
        start_s = start_s if nodes.own is None else max(start_s, nodes.own.start_s)
        wall = _wall(context, chain, link, nodes, start_s, usual_s)
        wanted_s, why = usual_s, ""
        if wall is not None:
            every_s = context.settings.pass_every_s
            gained_s = size_before(wall.begin_s, max(start_s, busy_until_s), every_s)
            size_s = size_before(wall.begin_s, start_s, every_s)
            wanted_s = size_s if gained_s >= shortest_link_s(chain.spec, usual_s) else usual_s
            if _still_fits(link, size_s, wall.begin_s - start_s):
                wanted_s = link.limit_s
            what = "the end of reservation" if wall.is_own else "reservation"
            why = f"to end before {what} {wall.reservation.name} at {clock_of(wall.begin_s)}"
        if chain.spec.budget_node_h and (within_s := _within_budget_s(context, chain)) < wanted_s:
            wanted_s, why = within_s, f"to stay within {chain.spec.budget_node_h:g} node-hours"
        self._resize(context, chain, link, usual_s, wanted_s, why)
        if wall is None or wall.is_own:  # one that was made while a link ran may end it
            wall = nodes.first_wall(context.now_s, start_s - context.now_s)
            return _with_reserved(context, chain, None if wall is None or wall.is_own else wall)
        from_s = wall.begin_s if wanted_s < usual_s else _idle_since_s(context, chain, busy_until_s)
        return _with_reserved(context, chain, wall, from_s)

    def _follow_edit(self, context: CycleContext, chain: Chain, link: Link) -> None:
        """Give a sized planned link the limit of a later edit, within the budget."""
        if link.state is not LinkState.PLANNED or self._options(context, chain) is None:
            return
        usual_s = self._usual_limit_s(context, chain, link)
        if usual_s in (MISSING, link.shortened_from_s) or link.shortened_from_s == MISSING:
            return
        within_s = _within_budget_s(context, chain) if chain.spec.budget_node_h else UNLIMITED_S
        sizes = {"limit_s": within_s, "shortened_from_s": usual_s} if within_s < usual_s else {}
        context.change_link(link, **({"limit_s": MISSING, "shortened_from_s": MISSING} | sizes))

    def _nodes(self, context: CycleContext, chain: Chain, link: Link) -> LinkNodes | None:
        options = self._options(context, chain)
        if context.machine is None or options is None:
            return None
        job = _job(context, chain, link)
        return link_nodes(
            context.machine,
            context.reservations,
            options,
            job,
            count=job.nodes if job is not None else requested_nodes(chain.spec),
            excluded=expand_hosts(excluded) if (excluded := excluded_nodes(chain)) and "/" not in excluded else (),
            user=context.backend.user,
            now_s=context.now_s,
        )

    def _options(self, context: CycleContext, chain: Chain) -> Mapping[str, str | None] | None:
        """The options of the chain's jobs; None where the copy of the script cannot be read."""
        known = self.options.get(chain.id)
        if known is not None and known[0] == chain.edits:
            return known[1]
        try:
            script = script_of(chain, 2, context.folder).read_bytes()
            options = effective_options(chain.spec.submission, script)
        except (OSError, SlurmRefused, ConfigurationError):  # the submission reports it
            return None
        self.options[chain.id] = (chain.edits, options)
        return options

    def _usual_limit_s(self, context: CycleContext, chain: Chain, link: Link) -> int:
        """The limit of a link that is not shortened; ``MISSING`` where it is not known.

        That of a planned link is the one of the present specification: the chain may have been edited.
        """
        if link.state is not LinkState.PLANNED:
            return link.limit_s if link.shortened_from_s == MISSING else link.shortened_from_s
        _, options = self.options[chain.id]
        if (given_s := given_limit_s(dict(options))) is not None:
            return given_s
        earlier = [one for one in context.links.get(chain.id, ()) if one.number < link.number and one.limit_s > 0]
        return max(earlier[-1].limit_s, earlier[-1].shortened_from_s) if earlier else MISSING

    def _resize(self, context: CycleContext, chain: Chain, link: Link, usual_s: int, wanted_s: int, why: str) -> None:
        """Give a link another limit, in Slurm first, then in the store.

        Its usual limit is stored before: after a ``kill -9`` the next agent knows it.
        """
        present_s = link.limit_s if link.limit_s > 0 else usual_s
        key = (chain.id, link.number)
        refused_s, last_refusal = self.refused.get(key, (MISSING, ""))
        if wanted_s == present_s:
            _correct(context, link, usual_s)
            return
        if last_refusal and context.now_s - refused_s < context.settings.sight_s:
            return
        if link.state is not LinkState.PLANNED:
            if context.job_of(chain, link) is None:
                return
            if link.shortened_from_s == MISSING:
                link = context.change_link(link, shortened_from_s=usual_s)
            minutes = "UNLIMITED" if wanted_s >= UNLIMITED_S else str(-(-wanted_s // MINUTE_S))
            try:
                context.backend.update(link.job, {"TimeLimit": minutes})
            except SlurmRefused as error:
                self.refused[key] = (context.now_s, str(error))
                if not waits_no_more(error) and str(error) != last_refusal:
                    detail = f"job {link.job}: its limit stays {format_duration(present_s)}: {error}"
                    context.change_link(link, context.event(*key, NOT_SIZED, detail))
                return
        self.refused.pop(key, None)
        job = f"job {link.job}" if link.job != MISSING else "the next job"
        if wanted_s < usual_s:
            detail = f"{job}: its limit is {format_duration(wanted_s)} in place of {format_duration(usual_s)}, {why}"
            event = context.event(*key, SIZED, detail)
            context.change_link(link, event, limit_s=wanted_s, shortened_from_s=usual_s)
            return
        event = context.event(*key, SIZED_BACK, f"{job}: its limit is {format_duration(usual_s)} again")
        limit_s = MISSING if link.state is LinkState.PLANNED else usual_s
        context.change_link(link, event, limit_s=limit_s, shortened_from_s=MISSING)


def _correct(context: CycleContext, link: Link, usual_s: int) -> None:
    """Correct the usual limit that is stored with a link of the right limit.

    It is out of date where an agent was killed before Slurm changed the limit, or after it changed it back, and where
    the chain was edited.
    """
    from_s = MISSING if link.limit_s in (MISSING, usual_s) else usual_s
    if link.shortened_from_s != from_s and link.shortened_from_s != MISSING:
        limit_s = MISSING if link.state is LinkState.PLANNED and from_s == MISSING else link.limit_s
        context.change_link(link, limit_s=limit_s, shortened_from_s=from_s)


def _within_budget_s(context: CycleContext, chain: Chain) -> int:
    """The longest limit of the next link within the budget; at least a minute, seconds."""
    budget = budget_of(chain, context.store.links(chain.id), context.now_s)
    nodes, _ = next_size(chain.spec, context.links.get(chain.id, ()))
    return UNLIMITED_S if budget is None else max(budget.longest_limit_s(nodes), MINUTE_S)


def _wall(
    context: CycleContext, chain: Chain, link: Link, nodes: LinkNodes, start_s: int, usual_s: int
) -> ReservationWall | None:
    """The first wall of a link with its usual limit.

    Slurm knows more about the nodes that suit a job, such as their features: where its reason is a reservation, each
    one of the partition counts. The reason is gone as soon as the link is shortened.
    """
    wall = nodes.first_wall(start_s, usual_s)
    job = context.job_of(chain, link)
    reported = job is not None and job.reason.startswith(_RESERVED_REASON) and "eserved" in job.reason
    if wall is None and (reported or link.shortened_from_s != MISSING):
        wall = nodes.any_reservation_blocks.first_wall(start_s, usual_s)
    return wall


def _still_fits(link: Link, size_s: int, left_s: int) -> bool:
    """Whether a shortened link retains its limit: it fits, and is not much too short.

    So few updates are needed.

    Args:
        size_s: The limit that it would get now.
        left_s: Time from its start to the wall.
    """
    fits = link.shortened_from_s != MISSING and 0 < link.limit_s <= left_s
    return fits and size_s - link.limit_s <= max(size_s // 4, MINUTE_S)


def _job(context: CycleContext, chain: Chain, link: Link) -> QueuedJob | None:
    """The job of a link, else of the last earlier one in the queue."""
    known = [one for one in context.links.get(chain.id, ()) if one.number <= link.number]
    jobs = (context.job_of(chain, one) for one in reversed(known))
    return next((job for job in jobs if job is not None), None)


def _busy_until_s(context: CycleContext, chain: Chain, link: Link) -> int:
    """The time at which the running link reaches its limit; now where none runs."""
    running = context.of(chain, LinkState.RUNNING)
    ends_s = (one.limit_ends_s for one in running if one.number < link.number)
    return max([context.now_s, *ends_s])


def _idle_since_s(context: CycleContext, chain: Chain, start_s: int) -> int:
    """The end of the last link, or the expected start of the next one while it runs."""
    ended_s = [one.ended_s for one in context.of(chain, LinkState.ENDED) if one.started_s != MISSING]
    return start_s if context.of(chain, LinkState.RUNNING) else max(ended_s, default=start_s)


def _with_reserved(context: CycleContext, chain: Chain, wall: ReservationWall | None, from_s: int = MISSING) -> Chain:
    """The chain with the time in which a reservation lets no link run.

    A reservation has one event.

    Args:
        from_s: Its begin where it is not that of the reservation.
    """
    known = ReservedTime.of(chain.reserved)
    if wall is None:
        if known is None:
            return chain
        over = context.event(chain.id, 0, RESERVED_OVER, f"reservation {known.name} stops no job of the chain any more")
        return context.change_chain(chain, over, reserved="")
    name = wall.reservation.name
    from_s = wall.begin_s if from_s == MISSING else from_s
    same = known is not None and known.name == name
    same = same and ("TIME_FLOAT" in wall.reservation.flags or (known is not None and known.until_s == wall.until_s))
    if known is not None and same and abs(known.from_s - from_s) < MINUTE_S:
        return chain
    found = ReservedTime(from_s, wall.until_s, name)
    flags = [flag for flag in ("MAINT",) if flag in wall.reservation.flags]
    detail = found.in_words + (f" ({', '.join(flags)})" if flags else "")
    events = () if same else (context.event(chain.id, 0, RESERVED, detail),)
    return context.change_chain(chain, *events, reserved=str(found))
