"""Nodes that the next links of a chain avoid, because links have failed there.

A node is excluded where a line of a link's output shows a fault of it, or where two links in a row that ran on it have
failed soon after their start. It is never excluded where one cannot know which of several nodes is at fault, or where
too few nodes of its kind would be left in the partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.agent.chain.submission import excluded_nodes
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import failed_soon
from mirage.agent.model import Chain, ChainState, Link, LinkState
from mirage.errors import SlurmRefused, quantity
from mirage.job_state import MISSING
from mirage.slurm.records import Machine
from mirage.slurm_words.hostlist import count_hosts, expand_hosts

EXCLUDED, NOT_EXCLUDED = "node-excluded", "node-not-excluded"
"""Kinds of events."""

FAILURES = 2
"""Links in a row that must fail soon on a node until it is excluded."""


def exclude_where_links_fail(context: CycleContext, chain: Chain, link: Link) -> Chain:
    """The chain after a link has ended: without the node on which links fail, if it did.

    Raises:
        SlurmUnreachable: No answer about the waiting link; the node is excluded for the next one.
    """
    if chain.state is not ChainState.ACTIVE or not link.nodelist or not failed_soon(link, context.settings):
        return chain
    before = [one for one in context.store.links(chain.id) if one.number < link.number and one.nodelist]
    failing = [
        node for node in expand_hosts(link.nodelist) if _failures_on(context, chain, before, node) >= FAILURES - 1
    ]
    if not failing:
        return chain
    return exclude(context, chain, link, failing, f"{FAILURES} links in a row have failed there soon after their start")


def _failures_on(context: CycleContext, chain: Chain, links: list[Link], node: str) -> int:
    """The number of the last links in a row that failed soon on a node, since a resume."""
    failures = 0
    for link in reversed(links):
        if node in expand_hosts(link.nodelist):
            if link.started_s <= chain.resumed_s or not failed_soon(link, context.settings):
                break
            failures += 1
    return failures


def exclude(context: CycleContext, chain: Chain, link: Link, nodes: list[str], why: str) -> Chain:
    """The chain with a node excluded from its next links, or an event with the refusal.

    Args:
        link: The link that failed.
        nodes: The nodes that may be at fault; one is excluded, of several none.
        why: The reason, in words.

    Raises:
        SlurmUnreachable: No answer about the waiting link; the node is excluded for the next one.
    """
    known = chain.excluded.split(",") if chain.excluded else []
    nodes = [node for node in nodes if node not in known]
    if not nodes:
        return chain
    refusal = f"one cannot know which of the {len(nodes)} is at fault" if len(nodes) > 1 else ""
    refusal = refusal or _refusal(context.machine, chain, link, nodes[0], known)
    if refusal:
        event = context.event(chain.id, link.number, NOT_EXCLUDED, f"{','.join(nodes)}: {why}; {refusal}")
        return context.change_chain(chain, event)
    event = context.event(chain.id, link.number, EXCLUDED, f"{nodes[0]}: {why}")
    chain = context.change_chain(chain, event, excluded=",".join([*known, nodes[0]]))
    for waiting in context.of(chain, LinkState.HELD, LinkState.QUEUED):
        if waiting.job != MISSING and context.job_of(chain, waiting) is not None:
            try:
                context.backend.update(waiting.job, {"ExcNodeList": excluded_nodes(chain)})
            except SlurmRefused as error:  # it may have started
                detail = f"job {waiting.job} waits without it: {error}"
                context.change_chain(chain, context.event(chain.id, waiting.number, NOT_EXCLUDED, detail))
    return chain


def _refusal(machine: Machine | None, chain: Chain, link: Link, node: str, known: list[str]) -> str:
    """The reason why a node must not be excluded; empty where it may."""
    options = chain.spec.submission.options
    if "/" in (options.get("exclude") or ""):
        return "--exclude of the chain names a file, to which no node can be added"
    if "nodelist" in options or "nodefile" in options:
        return "the chain names its nodes"
    if machine is None:
        return "the nodes of the cluster are not known yet"
    needed = count_hosts(link.nodelist)
    left = _nodes_left(machine, options, node, {node, *known, *expand_hosts(options.get("exclude") or "")})
    if left < needed:
        return f"without it {quantity(left, 'node')} like it would be left, and a link needs {needed}"
    return ""


def _nodes_left(machine: Machine, options: Mapping[str, str | None], node: str, without: set[str]) -> int:
    """The number of usable nodes for the chain's jobs that are at least as large as a node.

    Of several partitions the largest number counts: a job runs in one of them.

    Args:
        without: Nodes that do not count.
    """
    wanted = (options.get("partition") or "").split(",")
    partitions = {one.name for one in machine.partitions if one.name in wanted or (wanted == [""] and one.default)}
    model = next((one for one in machine.nodes if one.name == node), None)
    if model is None:
        return 0
    if not partitions & set(model.partitions):  # the script, or a plug-in of the site, names the partition
        partitions = set(model.partitions)
    fitting = [
        one
        for one in machine.nodes
        if one.usable and one.name not in without and one.cpus >= model.cpus and one.gpus >= model.gpus
    ]
    return max((sum(partition in one.partitions for one in fitting) for partition in partitions), default=0)
