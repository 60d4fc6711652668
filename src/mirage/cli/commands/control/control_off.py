"""``mirage control off``: restore Slurm after a controller."""

from __future__ import annotations

from pathlib import Path

import click

from mirage.cli import cli_context
from mirage.cli.commands.control.control_folder import control_folder, state_option
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError


@click.command(
    context_settings=CONTEXT,
    epilog=examples("mirage control off --config pools.toml", "mirage control off --config pools.toml --state DIR"),
)
@click.option("--config", "path", required=True, type=click.Path(path_type=Path), help="The file of pools (TOML).")
@state_option
@click.pass_context
def off(ctx: click.Context, path: Path, state: Path | None) -> None:
    """End the controller, and restore loans, nice values, fence and lease.

    Jobs on lent nodes go on; none is evicted. Repeat the command if Slurm did not answer. Exit status 1 if Slurm
    refused a part.
    """
    from mirage.control.executor_process import end_controller
    from mirage.control.plan_executor import PlanExecutor
    from mirage.control.pools_file import read_pools
    from mirage.control.restore import restore

    pools, folder = read_pools(path), control_folder(state)
    if state is not None and not state.is_dir():
        raise ConfigurationError(f"there is no folder {state}; name the one of mirage control run, --state")
    end_controller(folder)
    executor = PlanExecutor(cli_context.client(), pools, folder, cli_context.clock)
    executor.on_outcome = lambda outcome: click.echo(f"{outcome['what']}: {outcome['outcome']}")
    try:
        refused = restore(executor)
    finally:
        executor.close()
    for why in refused:
        click.echo(f"mirage: not restored: {why}", err=True)
    if refused:
        ctx.exit(1)
    click.echo("nothing of the controller is left in Slurm")
