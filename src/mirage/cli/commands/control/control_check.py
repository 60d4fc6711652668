"""``mirage control check``: rights, version, pools and reservations."""

from __future__ import annotations

from pathlib import Path

import click

from mirage.cli import cli_context
from mirage.cli.check_findings import print_findings
from mirage.cli.options import CONTEXT, examples, json_output


@click.command(
    context_settings=CONTEXT,
    epilog=examples("mirage control check --config pools.toml", "mirage control check --config pools.toml --json"),
)
@click.option("--config", "path", required=True, type=click.Path(path_type=Path), help="The file of pools (TOML).")
@json_output
@click.pass_context
def check(ctx: click.Context, path: Path, as_json: bool) -> None:
    """Check the cluster for a controller: rights, version, pools, jobs and reservations.

    Changes nothing. Exit status 1 if something will not work.
    """
    from mirage.control.pools_file import read_pools

    pools = read_pools(path)
    from mirage.control.check_control import check_control  # compiles where nothing is cached

    if print_findings(check_control(cli_context.client(), pools, cli_context.clock()), as_json):
        ctx.exit(1)
