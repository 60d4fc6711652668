"""``mirage control run``: advice, what a controller would do."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.control.adviser import Account, Advice, Adviser


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage control run --config pools.toml --once",
        "mirage control run --config pools.toml --scheduler aryl --record views",
        "mirage control run --config pools.toml --json > advice.jsonl",
    ),
)
@click.option("--config", "path", required=True, type=click.Path(path_type=Path), help="The file of pools (TOML).")
@click.option("--scheduler", metavar="NAME", help="Scheduler in place of that of the file: fifo, sjf, aryl, pickyman …")
@click.option("--once", is_flag=True, help="Take one snapshot and exit; exit status 1 if it failed.")
@click.option("--record", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Write each view with its plan into DIR, for mirage control replay.")  # fmt: skip
@json_output
@click.pass_context
def run(ctx: click.Context, path: Path, scheduler: str | None, once: bool, folder: Path | None, as_json: bool) -> None:
    """Take snapshots of the cluster and print what a controller would do; nothing is changed.

    One snapshot is one squeue, one sinfo and one scontrol. A snapshot that fails or is empty leads to no action. Ends
    with Ctrl-C or SIGTERM, and then prints an account. With --json each snapshot is a line of JSON, and the account is
    the last one.
    """
    from mirage.control.adviser import Adviser
    from mirage.control.pools_file import read_pools
    from mirage.schedule.schedulers.view_schedulers import check_view_scheduler

    pools = read_pools(path)
    if scheduler is not None:
        check_view_scheduler(scheduler)
        pools = replace(pools, scheduler=scheduler)
    if folder is not None:
        _make_folder(folder)
    adviser = Adviser(cli_context.client(), pools, folder)
    if once:
        advice = adviser.advise(cli_context.clock())
        _print(advice, as_json)
        ctx.exit(1 if advice.problem else 0)
    with _ended_by_signals():
        try:
            for advice in _advices(adviser, pools.poll_s):
                _print(advice, as_json)
        except KeyboardInterrupt:
            pass
        _print_account(adviser.account, as_json)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make {folder}: {error.strerror}; name another folder") from error
    if any(folder.glob("view-*.json")):
        raise ConfigurationError(f"{folder} has recorded views already; name an empty folder, or remove them")


def _advices(adviser: Adviser, poll_s: int) -> Iterator[Advice]:
    while True:
        begun_s = time.monotonic()
        yield adviser.advise(cli_context.clock())
        time.sleep(max(begun_s + poll_s - time.monotonic(), 0.0))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _print(advice: Advice, as_json: bool) -> None:
    from mirage.control.adviser import advice_json, summary

    at = datetime.fromtimestamp(advice.time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if as_json:
        click.echo(json.dumps({"at": at, **advice_json(advice)}))
        return
    if advice.problem or advice.view is None:
        click.echo(f"{at} no decision: {advice.problem}")
        return
    numbers = summary(advice.view)
    click.echo(
        f"{at} {numbers['pending']} pending, {numbers['running']} running; {numbers['free_gpus']} of "
        f"{numbers['gpus']} GPUs free; {numbers['lent_nodes']} nodes lent; {len(advice.steps)} steps, "
        f"{sum(advice.news)} new"
    )
    for step, new in zip(advice.steps, advice.news, strict=True):
        if new:
            click.echo(f"  would {step.line()}")


def _print_account(account: Account, as_json: bool) -> None:
    found = account.as_json()
    if as_json:
        click.echo(json.dumps({"account": found}))
        return
    steps = ", ".join(f"{count} {verb}" for verb, count in found["steps"].items()) or "none"
    click.echo(f"{account.snapshots} snapshots, {account.without_decision} without a decision; steps: {steps}")
    for why, count in found["refused"].items():
        click.echo(f"{count} would have been refused: {why}")
    if account.started:
        mean_s = account.started_after_s / account.started
        click.echo(f"Slurm started {account.started} of these jobs by itself, after {mean_s:.0f} s on average")
