"""``mirage chain list``, and functions shared by all commands about one chain."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError, UnknownName, WrongCluster, one_line, shown

if TYPE_CHECKING:
    from mirage.agent.chain.budget import Budget
    from mirage.agent.model import Chain, Link
    from mirage.agent.store.protocol import Store
    from mirage.agent.store.sql_store import SqlStore

COLUMNS = (
    "chain", "state", "policy", "link", "job", "link_state", "left", "next", "interruption", "overlap", "unsignalled",
    "why",
)  # fmt: skip

PATIENCE_S = 2.0
"""Seconds after which the list does not wait for a controller that is to name its cluster."""


def find(store: Store, name: str) -> Chain:
    """Returns the chain of a name.

    Raises:
        UnknownName: No chain has it, or the name is empty, as from an unset variable.
        ConfigurationError: It is the name of a chain without an agent, or the number of a job of a chain.
    """
    try:
        return store.chain(name)
    except UnknownName:
        from mirage.agent.paths import LINK_SCRIPT

        for chain in store.chains():
            if name in [str(link.job) for link in store.links(chain.id)]:
                why = f"unknown chain {shown(name)}: this is a job of chain {chain.name}; give that name"
                raise ConfigurationError(why) from None
        folder = cluster.home().agentless_folder(name)
        if not (folder / LINK_SCRIPT).is_file():
            raise
    if name not in cluster.home().agentless_chains():
        remove = shlex.join(["rm", "-r", str(folder)])
        raise ConfigurationError(
            f"chain {name} has no agent, and no further job follows; its log is {folder}/log; to remove it after the "
            f"last job, {remove}"
        )
    end = shlex.join(["touch", f"{folder}/stop"])
    raise ConfigurationError(f"chain {name} has no agent, its jobs decide; their log is {folder}/log; to end it, {end}")


@click.command(
    "list",
    context_settings=CONTEXT,
    epilog=examples("mirage chain list", "mirage chain list --json", "mirage chain list -P -o chain,job"),
)
@click.option("--all", "everything", is_flag=True, help="Include chains that are done, as --json always does.")
@click.option("-P", "--parsable2", is_flag=True, help="Separate columns by '|', without alignment.")
@click.option("-n", "--noheader", is_flag=True, help="Omit the line of column names.")
@click.option("-o", "--format", "columns", metavar="LIST", help=f"Columns to print: {','.join(COLUMNS)}.")
@json_output
def list_(everything: bool, parsable2: bool, noheader: bool, columns: str | None, as_json: bool) -> None:
    """Show each chain: its current link and time left, the next link, lost time, and problems.

    INTERRUPTION is the time without a serving link, from the end of one until the next was ready; OVERLAP is the time
    in which two links held nodes; UNSIGNALLED counts links that hit their time limit without a signal in time.
    """
    from mirage.agent.store.engine import place_of

    if as_json and (parsable2 or noheader or columns is not None):
        raise click.UsageError("--json prints every column in its own form; leave -P, -n and -o out")
    chosen = list(COLUMNS) if columns is None else columns.split(",")
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise click.UsageError(f"there is no column {shown(unknown[0])}; there are {', '.join(COLUMNS)}")
    now_s = int(cluster.clock())
    with cluster.store(to_read=True) as store:
        _warn_of_another_cluster(store)
        chains = store.chains()
        found = [c for c in chains if everything or c.state.value != "done" or as_json]
        observed = agent_facts(store, now_s)
        rows = [row(chain, store.links(chain.id), now_s) | observed for chain in found]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    lines = [[str(_cell(name, one)) for name in chosen] for one in rows]
    lines = lines if noheader else [[name.upper() for name in chosen], *lines]
    widths = [max((len(line[k]) for line in lines), default=0) for k in range(len(chosen))]
    for line in lines:
        plain = "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        click.echo("|".join(line) if parsable2 else plain)
    if parsable2 or noheader:
        return
    none = f"no active chain in {place_of(cluster.home().store_url)}" + (f" ({len(chains)} done: --all)" * bool(chains))
    click.echo(agent_in_words(observed) if rows else none, err=True)


def _warn_of_another_cluster(store: SqlStore) -> None:
    """Warns if Slurm's commands reach another cluster than that of the chains."""
    try:
        cluster.check_cluster(store, PATIENCE_S)
    except WrongCluster as error:
        click.echo(f"mirage: warning: {error}", err=True)


def agent_facts(store: Store, now_s: int) -> dict[str, Any]:
    """Returns when an agent last polled the queue, whether one runs, and its outage."""
    from mirage.agent.hosting.pass_memory import outage_of_passes, recent_passes
    from mirage.agent.monitoring.outage import known_outage
    from mirage.agent.service import running_agent
    from mirage.job_state import MISSING

    polled_s, home = store.identity().polled_s, cluster.home()
    outage = known_outage(store, home.agent_state, now_s)
    if outage is None and running_agent(store, now_s) is None:
        outage = outage_of_passes(home.pass_memory, home.agent_state, polled_s, now_s)
    return {
        "as_of": polled_s if polled_s != MISSING else None,
        "agent": outage is not None
        or running_agent(store, now_s) is not None
        or recent_passes(cluster.home().pass_memory, now_s) is not None,
        "outage_since": outage.since_s if outage is not None else None,
        "outage": outage.in_words(now_s) if outage is not None else None,
    }


def agent_in_words(observed: Mapping[str, Any]) -> str:
    """Returns the time of the last poll and the agent's state as a readable line."""
    if observed["as_of"] is None:
        as_of = "not polled yet"
    else:
        as_of = "as of " + time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(observed["as_of"]))
    if observed["outage"] is not None:
        return f"{as_of}; {observed['outage']}"
    return as_of if observed["agent"] else f"{as_of}; no agent runs: mirage agent start"


def row(chain: Chain, links: list[Link], now_s: int) -> dict[str, Any]:
    """Returns a chain as one JSON object, with times in seconds."""
    from mirage.agent.chain.budget import budget_of
    from mirage.agent.chain.history import chain_run
    from mirage.agent.cycle.handover import is_unsignalled
    from mirage.agent.decision.link_sizing import ReservedTime
    from mirage.duration import UNLIMITED_S
    from mirage.job_state import MISSING
    from mirage.slurm_words.reasons import in_words

    run = chain_run(chain, links, (), now_s)
    known = [link for link in links if link.job != MISSING]
    running = [link for link in known if link.state.value == "running"]
    first = [link for link in known if link.state.value in ("held", "queued")][:1]
    shown = (running or first or known)[-1] if known else None
    alive = [link for link in links if link.state.value != "ended"]
    following = [link for link in alive if shown is not None and link.number > shown.number]
    waiting = [link for link in known if link.reason]
    ends_s = running[-1].limit_ends_s if running else UNLIMITED_S
    left = max(ends_s - now_s, 0) if ends_s < UNLIMITED_S else None
    budget = budget_of(chain, links, now_s)
    reserved = ReservedTime.of(chain.reserved)
    stopped = reserved.in_words if reserved is not None else in_words(waiting[-1].reason) if waiting else ""
    if shown is not None and (shown.number, shown.state.value) == (1, "held"):
        stopped = stopped or "it waits for its own --dependency"
    shortened = [link for link in links if link.shortened_from_s > link.limit_s and link.state.value != "ended"]
    return {
        "chain": chain.name,
        "state": chain.state.value,
        "why": chain.why or chain.trouble or stopped,
        "policy": chain.spec.policy,
        "excluded": chain.excluded.split(",") if chain.excluded else [],
        "budget": None if budget is None else _budget_row(budget),
        "reserved": None if reserved is None else asdict(reserved),
        "shortened": [{"link": x.number, "limit": x.limit_s, "usual": x.shortened_from_s} for x in shortened],
        "link": shown.number if shown else 0,
        "job": shown.job if shown else None,
        "link_state": shown.state.value if shown else "planned",
        "left": left,
        "next": following[0].state.value if following else None,
        "interrupted": run.interruption_s,
        "overlap": run.overlap_s,
        "unsignalled": sum(is_unsignalled(chain, link) for link in links),
    }


def _budget_row(budget: Budget) -> dict[str, float | None]:
    """Returns a budget as one JSON object: node-hours, and the time at which it runs out."""
    hours = {"node_h": budget.node_h, "used": budget.used_h, "left": budget.left_h}
    runs_out_s = budget.runs_out_s if budget.runs_out_s >= 0 else None
    return {**{name: round(value, 3) for name, value in hours.items()}, "runs_out": runs_out_s}


def _cell(name: str, one: dict[str, Any]) -> Any:
    from mirage.duration import format_duration

    value = one["interrupted" if name == "interruption" else name]  # the key of its JSON
    if value is None:
        return "-"
    return format_duration(value) if name in ("left", "interruption", "overlap") else one_line(str(value))
