"""The fall-back for policies without an answer: a lead from recent waits.

It needs no compilation and no other process. The lead is a bound on a quantile of the waits of the jobs that started
last; the quantile is the share at which an hour of interruption and an hour of overlap cost the same (the newsvendor's
critical ratio).
"""

from __future__ import annotations

from dataclasses import replace

from mirage.policy.plan import Plan
from mirage.policy.view import ChainView, View
from mirage.provision.policies.lead_rules import QuantileWait

NAME = "fall-back"
LEAST, MOST = 0.05, 0.95


def decide_by_recent_waits(view: View, chain: ChainView, interruption_cost: float, overlap_cost: float) -> Plan:
    """The plan of the fall-back for a chain.

    Args:
        view: Without a chain.
    """
    both = interruption_cost + overlap_cost
    share = interruption_cost / both if both > 0 else 0.5
    rule = QuantileWait(str(round(min(max(share, LEAST), MOST), 4)))
    return rule.decide(replace(view, chain=chain))
