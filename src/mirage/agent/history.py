"""What became of a chain, from its links: the record that the simulator keeps too, so that one chart shows both."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.agent.model import Chain, DecisionRecord, Link
from mirage.provision.chain import Link as LinkForm
from mirage.provision.chain_run import ChainRun, Decision, LinkRecord
from mirage.trace.table import MISSING


def chain_run(
    chain: Chain, links: Sequence[Link], decisions: Sequence[DecisionRecord], now_s: int, nodes: int = 1
) -> ChainRun:
    """Links that were submitted, as they ran; one that still runs ends with its limit.

    Args:
        nodes: Of every link.
    """
    ran = [
        link for link in links if link.submitted_s != MISSING and (link.started_s != MISSING or not link.ended_s > 0)
    ]
    records = [LinkRecord(k, link.job, _asked_s(link), link.started_s, _ends_s(link)) for k, link in enumerate(ran)]
    of_link = {link.number: k for k, link in enumerate(ran)}
    told = [
        Decision(d.time_s, of_link[d.link], _ends_s(ran[of_link[d.link]]) - d.time_s, d.submits, d.reason, d.estimate)
        for d in decisions
        if d.link in of_link
    ]
    begin_s = records[0].submitted_s if records else chain.created_s
    limit_s = max((link.limit_s for link in ran), default=0)
    return ChainRun(LinkForm(nodes, max(limit_s, 1)), begin_s, now_s, tuple(records), tuple(told))


def _asked_s(link: Link) -> int:
    """From when on it competed for nodes; while it was held it waited for nothing."""
    return link.released_s if link.released_s != MISSING else link.submitted_s


def _ends_s(link: Link) -> int:
    if link.ended_s != MISSING:
        return link.ended_s
    return link.started_s + link.limit_s if MISSING not in (link.started_s, link.limit_s) else MISSING
