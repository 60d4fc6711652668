"""``mirage chain show``, ``log``, ``explain`` and ``report``."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli import cli_context as cluster
from mirage.cli.commands.chain.list import agent_facts, agent_in_words, find, row
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_page
from mirage.cli.values import COUNT
from mirage.errors import one_line
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.agent.model import DecisionRecord, EventRecord


@click.command(
    context_settings=CONTEXT, epilog=examples("mirage chain show train-k3f9", "mirage chain show train --json")
)
@click.argument("name")
@json_output
def show(name: str, as_json: bool) -> None:
    """Show the links of chain NAME over time, the time lost between them, and the next step."""
    now_s = int(cluster.clock())
    with cluster.store(to_read=True) as store:
        chain = find(store, name)
        links, decisions = store.links(chain.id), store.decisions(chain.id)
        observed = agent_facts(store, now_s)
    facts = row(chain, links, now_s) | observed
    revisions = [one for one in decisions if one.revision and one.link == facts["link"]]
    if as_json:
        facts["links"] = [{**asdict(link), "outcome": link.outcome.name} for link in links]
        facts["decisions"] = len(decisions)
        facts["last_revision"] = asdict(revisions[-1]) if revisions else None
        click.echo(json.dumps(facts, indent=2))
        return
    from mirage.agent.chain.history import chain_run
    from mirage.report.terminal.chain_text import print_chain

    print_chain(chain_run(chain, links, decisions, now_s), facts, decisions[-1] if decisions else None)
    if revisions:
        last = revisions[-1]
        click.echo(f"next job {revision_in_words(last.revision)} {_instant(last.time_s)}: {last.reason}")
    if chain.state.value != "done":
        click.echo(agent_in_words(observed), err=True)


@click.command(
    context_settings=CONTEXT, epilog=examples("mirage chain log train-k3f9", "mirage chain log serve --follow")
)
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Wait for further events, until the chain is done.")
@json_output
def log(name: str, follow: bool, as_json: bool) -> None:
    """Print the events of chain NAME, one per line."""
    with cluster.store(to_read=True) as store:
        chain = find(store, name)
        shown, absent = 0, False
        while True:
            known = next((one for one in store.chains() if one.id == chain.id), None)  # before its last events
            events = store.events(chain.id)
            for event in events[shown:]:
                click.echo(json.dumps(asdict(event)) if as_json else _line(event))
            shown = len(events)
            if not follow:
                return
            if known is None or known.state.value == "done":
                why = "was removed" if known is None else f"is done{known.why and f': {one_line(known.why)}'}"
                click.echo(f"mirage: chain {chain.name} {why}; no further event follows", err=True)
                return
            known_absent, absent = absent, not agent_facts(store, int(cluster.clock()))["agent"]
            if absent and not known_absent:
                click.echo("mirage: no agent runs, so no event follows: mirage agent start", err=True)
            time.sleep(2)


@click.command(
    context_settings=CONTEXT, epilog=examples("mirage chain explain train-k3f9", "mirage chain explain train -n 5")
)
@click.argument("name")
@click.option("-n", "--last", metavar="N", default=1, show_default=True, type=COUNT, help="Number of decisions.")
@json_output
def explain(name: str, last: int, as_json: bool) -> None:
    """Show what the last decisions about chain NAME observed, expected and chose, and why."""
    with cluster.store(to_read=True) as store:
        chain = find(store, name)
        decisions = store.decisions(chain.id, last=last)
    if as_json:
        click.echo(json.dumps([_as_json(decision) for decision in decisions], indent=2))
        return
    if not decisions:
        if chain.spec.never_two:
            why = "no policy decides here (--never-two): Slurm starts the next job when the present one has ended"
        elif chain.state.value == "done":
            why = "there was no decision: no policy was called before the chain was done"
        else:
            why = "no decisions yet: the first is due once a job of the chain runs"
        click.echo(why)
    for decision in decisions:
        click.echo("\n".join(explained(decision)))


@click.command(context_settings=CONTEXT, epilog=examples("mirage chain report train-k3f9 -o train.html"))
@click.argument("name")
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="[default: NAME.html]")
def report(name: str, out: Path | None) -> None:
    """Write chain NAME as one HTML file: links, hand-overs, decisions and events."""
    from mirage.agent.chain.history import chain_run
    from mirage.report.pages.chain_page import chain_page

    now_s = int(cluster.clock())
    with cluster.store(to_read=True) as store:
        chain = find(store, name)
        links, decisions = store.links(chain.id), store.decisions(chain.id)
        events = store.events(chain.id)
    path = out or Path(f"{chain.name}.html")
    check_page(path)
    facts = row(chain, links, now_s)
    lines = [(event.time_s, event.link, event.kind, event.detail) for event in events]
    text = chain_page(
        chain_run(chain, links, decisions, now_s), facts, [asdict(d) for d in decisions], lines, __version__
    )
    write_output(path, text)
    click.echo(str(path))


_REVISIONS = {
    "hold": "held again", "release": "released again", "postpone": "postponed", "shorten": "shortened",
    "withdraw": "withdrawn",
}  # fmt: skip


def revision_in_words(revision: str) -> str:
    """Returns a decision's revision of the queued job in words; empty without one."""
    return ", ".join(_REVISIONS.get(word, word) for word in revision.split(",") if word)


def explained(decision: DecisionRecord) -> list[str]:
    """Returns the lines that explain a decision."""
    chose = "let the next job compete" if decision.submits else "waited"
    if revision := revision_in_words(decision.revision):
        chose = f"revised the next job: {revision}"
    lines = [f"{_instant(decision.time_s)}  link {decision.link}: {decision.policy} {chose} ({decision.reason})"]
    lines += [f"    observed  {name:<18} {value:g}" for name, value in decision.observed.items()]
    lines += [f"    expected  {name:<18} {_estimate(name, value)}" for name, value in decision.estimate.items()]
    return lines


def _as_json(decision: DecisionRecord) -> dict[str, Any]:
    """Returns a decision as JSON values: null for an infinite number or NaN."""
    record = asdict(decision)
    for name in ("estimate", "observed"):
        record[name] = {key: value if isfinite(value) else None for key, value in record[name].items()}
    return record


def _estimate(name: str, value: float) -> str:
    from mirage.duration import format_duration

    return format_duration(round(value)) if name.endswith("_s") and isfinite(value) else f"{value:.3g}"


def _line(event: EventRecord) -> str:
    where = f"link {event.link}" if event.link else "chain"
    return f"{_instant(event.time_s)}  {where:<9} {event.kind:<16} {one_line(event.detail)}".rstrip()


def _instant(time_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time_s))
