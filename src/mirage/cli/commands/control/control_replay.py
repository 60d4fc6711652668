"""``mirage control replay``: decide recorded views again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError


@click.command(
    context_settings=CONTEXT, epilog=examples("mirage control replay views", "mirage control replay views --json")
)
@click.argument("folder", type=click.Path(path_type=Path))
@json_output
@click.pass_context
def replay(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Decide the views in FOLDER again, as mirage control run --record wrote them.

    Needs no Slurm. Exit status 1 if a plan differs from the recorded one in any byte.
    """
    from mirage.control.recording import decide_again, read_recorded

    paths = sorted(folder.glob("view-*.json"))
    if not paths:
        raise ConfigurationError(f"{folder} has no recorded view; name a folder that --record has written")
    different = []
    for path in paths:
        recorded = read_recorded(path)
        if decide_again(recorded) != recorded.plan:
            different.append(path.name)
    if as_json:
        click.echo(json.dumps({"views": len(paths), "different": different}))
    else:
        click.echo(f"{len(paths)} views, {len(different)} with another plan")
        for name in different:
            click.echo(name)
    if different:
        ctx.exit(1)
