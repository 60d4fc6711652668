"""The budget of a chain in node-hours: used, reserved for running links, left.

All of it follows from the links in the store: nodes times run time, also of runs before a requeue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirage.agent.chain.history import most_nodes, requested_nodes
from mirage.agent.chain.spec_check import limit_s as given_limit_s
from mirage.agent.model import Chain, ChainSpec, Link, LinkState
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S, WEEK_S
from mirage.job_state import MISSING
from mirage.slurm_words.hostlist import count_hosts

RATE_WINDOW_S = WEEK_S
"""The present rate is the mean of this time, or of the time since the first start."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The state of a chain's budget, in node-hours.

    Attributes:
        node_h: The budget.
        used_h: Used so far.
        promised_h: Still needed by the running links up to their limits.
        runs_out_s: When it runs out at the present rate, seconds since 1970; ``MISSING`` where nothing was used lately.
    """

    node_h: float
    used_h: float
    promised_h: float
    runs_out_s: int

    @property
    def left_h(self) -> float:
        """Left of it now; at least 0."""
        return max(self.node_h - self.used_h, 0.0)

    @property
    def free_h(self) -> float:
        """Left of it for further links; at least 0."""
        return max(self.node_h - self.used_h - self.promised_h, 0.0)

    def longest_limit_s(self, nodes: int) -> int:
        """The longest limit of a further link, in whole minutes, seconds."""
        return int(self.free_h * HOUR_S / nodes) // MINUTE_S * MINUTE_S


def budget_of(chain: Chain, links: Sequence[Link], now_s: int) -> Budget | None:
    """The budget of a chain; None where it has none.

    Args:
        links: All links of the chain.
        now_s: The present time, seconds since 1970.
    """
    if not chain.spec.budget_node_h:
        return None
    runs = [run for link in links for run in _runs(chain.spec, link, now_s)]
    used_s = sum(nodes * (end_s - start_s) for nodes, start_s, end_s in runs)
    since_s = max(min((start_s for _, start_s, _ in runs), default=now_s), now_s - RATE_WINDOW_S)
    lately_s = sum(nodes * max(end_s - max(start_s, since_s), 0) for nodes, start_s, end_s in runs)
    promised_s = sum(
        nodes_of(chain.spec, link) * max(link.started_s + link.limit_s - now_s, 0)
        for link in links
        if link.state is LinkState.RUNNING and 0 < link.limit_s < UNLIMITED_S
    )
    left_s = max(chain.spec.budget_node_h * HOUR_S - used_s, 0.0)
    runs_out_s = now_s + round(left_s * (now_s - since_s) / lately_s) if lately_s else MISSING
    return Budget(chain.spec.budget_node_h, used_s / HOUR_S, promised_s / HOUR_S, runs_out_s)


def nodes_of(spec: ChainSpec, link: Link) -> int:
    """The number of nodes of a link: of its last run, else as requested."""
    return count_hosts(link.nodelist) or requested_nodes(spec)


def next_size(spec: ChainSpec, links: Sequence[Link]) -> tuple[int, int]:
    """The largest number of nodes and the usual limit of a chain's next link.

    Args:
        links: The last links of the chain.

    Returns:
        The number of nodes, and the limit in seconds; ``MISSING`` where it is not known.
    """
    options = spec.submission.options
    known = [link for link in links if link.limit_s > 0]
    limit_s = given_limit_s(dict(options))
    if limit_s is None:
        limit_s = max(known[-1].limit_s, known[-1].shortened_from_s) if known else MISSING
    ran = [link for link in links if link.nodelist]
    return most_nodes(spec) if "nodes" in options or not ran else nodes_of(spec, ran[-1]), limit_s


def _runs(spec: ChainSpec, link: Link, now_s: int) -> Iterator[tuple[int, int, int]]:
    """Nodes, start and end of each run of a link; one that still runs ends now."""
    nodes = nodes_of(spec, link)
    for started_s, _, left_s in link.earlier:
        yield nodes, started_s, max(left_s, started_s)
    if link.started_s != MISSING:
        yield nodes, link.started_s, max(link.ended_s if link.ended_s != MISSING else now_s, link.started_s)
