"""``mirage agent recover``: a lost or damaged store is built again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import COUNT

if TYPE_CHECKING:
    from mirage.agent.chain.recover import Recovery


@click.command(
    context_settings=CONTEXT, epilog=examples("mirage agent recover", "mirage agent recover --from-backup 2")
)
@click.option("--from-backup", metavar="N", type=COUNT, help="Restore backup N, even if the store is intact.")
@json_output
def recover(from_backup: int | None, as_json: bool) -> None:
    """Rebuild a lost or damaged store, so that its chains resume with their present jobs.

    It starts from the newest intact backup, or without one from the files of the chains, and then searches the queue
    and the accounting for the chains' jobs. A file in the store's place is moved aside. Slurm must answer.
    """
    from mirage.agent.chain.recover import recover as rebuild

    slurm = cluster.client()
    slurm.everybody = False  # our own jobs are enough; those of all users over months would be too many
    done = rebuild(cluster.home(), slurm, int(cluster.clock()), from_backup)
    folder = cluster.home().folder
    if as_json:
        click.echo(json.dumps(_facts(done), indent=2))
        return
    began = f"{done.source.path.name}, of {_instant(done.source.made_s)}" if done.source else "the files of the chains"
    click.echo(f"started from {began}", err=True)
    for one in done.chains:
        jobs = [f"link {link.number} {link.state.value} (job {link.job})" for link in one.links]
        lost = f"; nothing is known of links {', '.join(map(str, one.lost))}" if one.lost else ""
        spec = one.chain.spec
        copies = [path for path in (spec.submission.script, spec.later_script) if path]
        paths = [str(folder / path) for path in copies] if spec.folder else copies
        scripts = [path for path in paths if not os.path.exists(path)]
        gone = f"; restore its script: {', '.join(scripts)}" if scripts and one.chain.state.value != "done" else ""
        click.echo(f"{one.chain.name}  {one.chain.state.value}  {', '.join(jobs) or 'no job in the queue'}{lost}{gone}")
    for name, why in done.unknown:
        click.echo(f"{name}  not recovered: {why}")
    for path in done.aside:
        click.echo(f"the previous file was moved to {path}", err=True)
    click.echo("start the agent again: mirage agent start", err=True)


def _facts(done: Recovery) -> dict[str, Any]:
    """Returns a recovery as one JSON object."""
    source = {"file": str(done.source.path), "time": _instant(done.source.made_s)} if done.source else None
    chains = [
        {
            "chain": one.chain.name,
            "state": one.chain.state.value,
            "why": one.chain.why,
            "jobs": {link.number: link.job for link in one.links},
            "found": list(one.found),
            "lost": list(one.lost),
        }
        for one in done.chains
    ]
    unknown = [{"name": name, "why": why} for name, why in done.unknown]
    return {"backup": source, "chains": chains, "not_recovered": unknown, "aside": [str(path) for path in done.aside]}


def _instant(time_s: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
