"""The history of a chain as a ``ChainRun``, made from its links.

The simulator writes the same record, so that one chart shows both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, Decision, LinkRecord
from mirage.provision.link_size import LinkSize


def chain_run(
    chain: Chain, links: Sequence[Link], decisions: Sequence[DecisionRecord], now_s: int, nodes: int | None = None
) -> ChainRun:
    """The links that were submitted, as they ran, until now or until the chain's end.

    A chain that is done always has the same record, independent of the reader's clock.

    Links that never ran are left out; the others retain their numbers. One that still runs ends with its limit, or now
    if it has outlived that or has none.

    Args:
        nodes: Number of nodes of every link; by default that of the options.
    """
    ran = [link for link in links if _counts(link)]
    if chain.state is ChainState.DONE:
        now_s = _last_known_s(chain, ran)
    loads = bool(chain.spec.ready_command or chain.spec.ready_by_job or chain.spec.warmup_s)
    records = tuple(record for link in ran for record in _records(link, now_s, loads))
    limits_s = {link.number: _limit_ends_s(link) for link in ran}
    recorded = [
        Decision(d.time_s, d.link - 1, limits_s[d.link] - d.time_s, d.submits, d.reason, d.estimate)
        for d in decisions
        if limits_s.get(d.link, MISSING) != MISSING
    ]
    begin_s = min([record.queued_s for record in records[:1]], default=chain.created_s)
    limit_s = max((link.limit_s for link in ran), default=0)
    form = LinkSize(nodes or requested_nodes(chain.spec), max(limit_s, 1))
    until_s = max(_until_s(chain, records, now_s), begin_s)
    return ChainRun(form, begin_s, until_s, records, tuple(recorded), chain.stopped_s)


def _records(link: Link, now_s: int, loads: bool) -> list[LinkRecord]:
    """The runs of a link, those before a requeue first.

    Args:
        loads: Whether a link serves only once it is known to be ready.
    """
    number, found, competes_s = link.number - 1, [], link.submitted_s
    for started_s, ready_s, ended_s in link.earlier:
        serves_s = _serves_s(ready_s, ended_s, loads)
        found.append(LinkRecord(number, link.job, competes_s, started_s, ended_s, ready_s=serves_s))
        competes_s = ended_s
    if link.started_s != MISSING or link.state is not LinkState.ENDED:
        ends_s = _ends_s(link, now_s)
        ready_s = MISSING if link.started_s == MISSING else _serves_s(link.ready_s, min(ends_s, now_s), loads)
        competes_s = max(_competes_s(link, now_s), competes_s)
        found.append(LinkRecord(number, link.job, competes_s, link.started_s, ends_s, _held_s(link), ready_s))
    return found


def _serves_s(ready_s: int, over_s: int, loads: bool) -> int:
    """The time since which a run served; its end, or now, where it has not been ready."""
    if ready_s != MISSING:
        return ready_s
    return over_s if loads else MISSING


def requested_nodes(spec: ChainSpec) -> int:
    """The nodes of a link: the smallest number of sbatch's ``--nodes``, else 1."""
    return _node_counts(spec)[0]


def most_nodes(spec: ChainSpec) -> int:
    """The most nodes that a link may get: the largest number of sbatch's ``--nodes``, else 1."""
    return max(_node_counts(spec))


def _node_counts(spec: ChainSpec) -> list[int]:
    """The numbers of sbatch's ``--nodes``, else 1."""
    found = re.findall(r"(\d+)([km]?)", spec.submission.options.get("nodes") or "", re.IGNORECASE)
    return [max(int(count) * {"": 1, "k": 1024, "m": 1024**2}[unit.lower()], 1) for count, unit in found] or [1]


def _counts(link: Link) -> bool:
    """Whether a link has run, or is in the queue."""
    ran = link.started_s != MISSING or bool(link.earlier)
    return link.submitted_s != MISSING and (ran or link.state is not LinkState.ENDED)


def _last_known_s(chain: Chain, links: Sequence[Link]) -> int:
    """The last time in the links; a link without a known end ended with its limit."""
    instants = [s for link in links for s in (link.submitted_s, link.started_s, _ends_s(link, MISSING))]
    return max([chain.created_s, chain.stopped_s, *instants])


def _until_s(chain: Chain, records: Sequence[LinkRecord], now_s: int) -> int:
    """The end of the record: now, or earlier for a chain that is winding up.

    That is the time since which no link was wanted, or the end of the last link.
    """
    if chain.state in (ChainState.ACTIVE, ChainState.PAUSED):
        return now_s
    return min(now_s, max([chain.stopped_s, chain.created_s, *(record.ends_s for record in records)]))


def _competes_s(link: Link, now_s: int) -> int:
    """The time since which the link competed for nodes; a held one has not begun to."""
    if link.released_s != MISSING:
        return link.released_s
    return now_s if link.state is LinkState.HELD else link.submitted_s


def _held_s(link: Link) -> int:
    """The time since which the link was held for its predecessor."""
    held = link.released_s > link.submitted_s or link.state is LinkState.HELD
    return link.submitted_s if held else MISSING


def _ends_s(link: Link, now_s: int) -> int:
    if link.started_s == MISSING or link.ended_s != MISSING:
        return link.ended_s
    return max(_limit_ends_s(link), now_s)


def _limit_ends_s(link: Link) -> int:
    """The time at which its limit ends it; without a limit, its known end."""
    if link.started_s == MISSING or not 0 <= link.limit_s < UNLIMITED_S:
        return link.ended_s
    return link.started_s + link.limit_s
