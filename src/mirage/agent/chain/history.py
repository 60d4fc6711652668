"""The history of a chain as a ``ChainRun``, made from its links.

The simulator keeps the same record, so that one chart shows both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, Link, LinkState
from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.provision.chain import Link as LinkForm
from mirage.provision.chain_record import ChainRun, Decision, LinkRecord


def chain_run(
    chain: Chain, links: Sequence[Link], decisions: Sequence[DecisionRecord], now_s: int, nodes: int | None = None
) -> ChainRun:
    """The links that were submitted, as they ran, until now or until the chain's end.

    A chain that is done has the same record for ever: whoever reads it, and whatever their clock says.

    Links that never ran are left out; the numbers of the others stay theirs. One that still runs ends with its limit,
    or now if it has outlived that or has none.

    Args:
        nodes: Of every link; by default what the options say.
    """
    ran = [link for link in links if _counts(link)]
    if chain.state is ChainState.DONE:
        now_s = _last_known_s(chain, ran)
    records = tuple(
        LinkRecord(
            link.number - 1, link.job, _asked_s(link, now_s), link.started_s, _ends_s(link, now_s), _held_s(link)
        )
        for link in ran
    )
    limits_s = {link.number: _limit_ends_s(link) for link in ran}
    told = [
        Decision(d.time_s, d.link - 1, limits_s[d.link] - d.time_s, d.submits, d.reason, d.estimate)
        for d in decisions
        if limits_s.get(d.link, MISSING) != MISSING
    ]
    begin_s = min([_first_s(record) for record in records[:1]], default=chain.created_s)
    limit_s = max((link.limit_s for link in ran), default=0)
    form = LinkForm(nodes or nodes_asked(chain.spec), max(limit_s, 1))
    return ChainRun(form, begin_s, max(_until_s(chain, records, now_s), begin_s), records, tuple(told))


def nodes_asked(spec: ChainSpec) -> int:
    """The nodes of a link: the smallest number of sbatch's ``--nodes``, else 1."""
    said = re.match(r"(\d+)([km]?)", spec.submission.options.get("nodes") or "", re.IGNORECASE)
    return max(int(said[1]) * {"": 1, "k": 1024, "m": 1024**2}[said[2].lower()], 1) if said else 1


def _counts(link: Link) -> bool:
    """Whether a link has run, or stands in the queue."""
    return link.submitted_s != MISSING and (link.started_s != MISSING or link.state is not LinkState.ENDED)


def _last_known_s(chain: Chain, links: Sequence[Link]) -> int:
    """The last instant that the links tell of; a link whose end is unknown ended with its limit."""
    instants = [s for link in links for s in (link.submitted_s, link.started_s, _ends_s(link, MISSING))]
    return max([chain.created_s, *instants])


def _until_s(chain: Chain, records: Sequence[LinkRecord], now_s: int) -> int:
    """The end of the record: now, or the end of the last link of a finished chain."""
    if chain.state not in (ChainState.ENDING, ChainState.DONE):
        return now_s
    return min(now_s, max((record.ends_s for record in records), default=chain.created_s))


def _first_s(record: LinkRecord) -> int:
    return record.submitted_s if record.held_s == MISSING else record.held_s


def _asked_s(link: Link, now_s: int) -> int:
    """The time from which the link competed for nodes; a held one has not begun to."""
    if link.released_s != MISSING:
        return link.released_s
    return now_s if link.state is LinkState.HELD else link.submitted_s


def _held_s(link: Link) -> int:
    """The time from which the link was held behind its predecessor."""
    held = link.released_s > link.submitted_s or link.state is LinkState.HELD
    return link.submitted_s if held else MISSING


def _ends_s(link: Link, now_s: int) -> int:
    if link.started_s == MISSING or link.ended_s != MISSING:
        return link.ended_s
    return max(_limit_ends_s(link), now_s)


def _limit_ends_s(link: Link) -> int:
    """The time at which its limit ends it; without a limit, what is known of its end."""
    if link.started_s == MISSING or not 0 <= link.limit_s < UNLIMITED_S:
        return link.ended_s
    return link.started_s + link.limit_s
