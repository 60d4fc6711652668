"""``mirage control run``: advice, what a controller would do."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mirage.cli import cli_context
from mirage.cli.commands.control.control_folder import control_folder, state_option
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.errors import ConfigurationError, quantity
from mirage.process import interrupted_by_signals

if TYPE_CHECKING:
    from mirage.control.adviser import Account, Advice, Adviser
    from mirage.control.pools_file import Pools


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage control run --config pools.toml --once",
        "mirage control run --config pools.toml --scheduler aryl --record views",
        "mirage control run --config pools.toml --json > advice.jsonl",
        "mirage control run --config pools.toml --once --export nice | sh",
        "mirage control run --config pools.toml --scheduler aryl --act",
    ),
)
@click.option("--config", "path", required=True, type=click.Path(path_type=Path), help="The file of pools (TOML).")
@click.option("--scheduler", metavar="NAME", help="Scheduler in place of that of the file: fifo, sjf, aryl, pickyman …")
@click.option("--once", is_flag=True, help="Take one snapshot and exit; exit status 1 if it failed.")
@click.option("--record", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Write each view with its plan into DIR, for mirage control replay.")  # fmt: skip
@click.option(
    "--export",
    "form",
    type=click.Choice(("nice", "kueue")),
    help="With --once: print only the changes of order that let jobs start now, as scontrol commands or as Kueue's "
    "priority boosts.",
)
@click.option("--act", is_flag=True, help="Carry out the steps; needs the rights of an operator.")
@state_option
@json_output
@click.pass_context
def run(
    ctx: click.Context,
    path: Path,
    scheduler: str | None,
    once: bool,
    folder: Path | None,
    form: str | None,
    act: bool,
    state: Path | None,
    as_json: bool,
) -> None:
    """Take snapshots of the cluster and print what a controller would do.

    Without --act nothing is changed. With it a second process carries the steps out: it checks each against the file of
    pools, and writes what undoes it into a journal. If both processes die, loans end by themselves; mirage control off
    restores Slurm at once.

    One snapshot is one squeue, one sinfo and one scontrol. A snapshot that fails or is empty leads to no action. Ends
    with Ctrl-C or SIGTERM, and then prints an account. With --json each snapshot is a line of JSON, and the account is
    the last one.
    """
    from mirage.control.pools_file import read_pools

    pools = read_pools(path)
    if act and once:
        raise click.UsageError("--act acts until it is ended; leave --once out")
    if state is not None and not act:
        raise click.UsageError("--state is the folder of --act; without --act nothing is written there")
    if form is not None and not once:
        raise click.UsageError("--export is the order of one snapshot; give --once, too")
    if form is not None and as_json:
        raise click.UsageError("--export has a form of its own; leave --json out")
    acting = _begin_to_act(path, pools, control_folder(state)) if act else nullcontext(None)
    with acting as actor:
        if scheduler is not None:
            from mirage.schedule.schedulers.view_schedulers import check_view_scheduler

            check_view_scheduler(scheduler)
            pools = replace(pools, scheduler=scheduler)
        _run(ctx, actor, pools, once, folder, form, as_json)


class Actor(NamedTuple):
    """The executor of a run.

    Attributes:
        process: Its process id.
        folder: Its folder.
    """

    process: int
    folder: Path


@contextmanager
def _begin_to_act(path: Path, pools: Pools, folder: Path) -> Iterator[Actor]:
    """An executor, started before a scheduler is imported."""
    from mirage.control.controller_lease import RENEW_S
    from mirage.control.executor_process import end_executor, start_executor
    from mirage.slurm.gpu_snapshot import REQUESTS

    renewals = 60 / RENEW_S
    if 60 * REQUESTS / pools.poll_s + renewals > pools.requests_per_minute:
        least_s = math.ceil(60 * REQUESTS / (pools.requests_per_minute - renewals))
        raise ConfigurationError(f"{path}: poll = {pools.poll_s}s is too often with --act; give {least_s}s or more")
    process = start_executor(path, folder)
    if process is None:
        raise ConfigurationError(
            "the executor did not begin; its message is above, and nothing was changed. Whether you have the rights of "
            f"an operator: mirage control check --config {path}"
        )
    try:
        yield Actor(process, folder)
    finally:
        end_executor(process)


def _run(
    ctx: click.Context,
    actor: Actor | None,
    pools: Pools,
    once: bool,
    folder: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    from mirage.control.adviser import Adviser, exported_order

    if folder is not None:
        _make_folder(folder)
    adviser = Adviser(cli_context.client(), pools, folder)
    if actor is not None:
        from mirage.control.begun_evictions import stops_in
        from mirage.control.executor_folder import read_journal

        adviser.count_stops(stops_in(read_journal(actor.folder / "journal.jsonl")))
    if once:
        advice = adviser.advise(cli_context.clock())
        if form is None:
            _print(advice, pools, as_json)
        else:
            if advice.problem:
                click.echo(f"mirage: no decision: {advice.problem}", err=True)
            lines = exported_order(advice, pools, form)
            if not lines and not advice.problem:
                click.echo("mirage: no job would start now out of the present order: nothing to export", err=True)
            for line in lines:
                click.echo(line)
        ctx.exit(1 if advice.problem else 0)
    with interrupted_by_signals() as ended:
        try:
            for number, advice in enumerate(_advices(adviser, pools.poll_s, actor, ended)):
                _print(advice, pools, as_json)
                if actor is not None:
                    _hand_over(advice, actor, number, pools)
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


def _advices(adviser: Adviser, poll_s: int, actor: Actor | None, ended: Callable[[], bool]) -> Iterator[Advice]:
    from mirage.control.snapshot_file import request_snapshot

    while True:
        begun_s = time.monotonic()
        if actor is None:
            yield adviser.advise(cli_context.clock())
        else:
            taken = request_snapshot(actor.folder, partial(_check_acts, actor))
            yield adviser.advise(taken.time_s, taken.parsed)
        while not ended() and actor is not None and time.monotonic() < begun_s + poll_s - 1:
            _check_acts(actor)
            time.sleep(1.0)
        if ended():
            return
        time.sleep(max(begun_s + poll_s - time.monotonic(), 0.0))


def _check_acts(actor: Actor) -> None:
    from mirage.control.executor_process import wait_status

    status = wait_status(actor.process)
    if status == 0:
        raise ConfigurationError("SIGTERM has ended the executor, as mirage control off does; loans end by themselves")
    if status is not None:
        raise ConfigurationError("the executor has ended; its message is above, and loans end by themselves")


def _hand_over(advice: Advice, actor: Actor, number: int, pools: Pools) -> None:
    """Write the plan file; a snapshot without a decision leads to no plan.

    A long queue can need thousands of nice values. The executor would refuse nearly all of them: it sends some in a
    minute, and the next plan has the rest. Those of the jobs that start first come first.
    """
    from mirage.control.executor_process import write_plan

    if not advice.problem:
        verbs = [verb for step in advice.steps if not step.refused for verb in step.verbs]
        verbs = verbs[: 2 * pools.commands_per_minute]
        write_plan(actor.folder, 1000 * int(cli_context.clock()) + number % 1000, advice.time_s, verbs)


def _print(advice: Advice, pools: Pools, as_json: bool) -> None:
    from mirage.control.adviser import advice_json, summary

    at = datetime.fromtimestamp(advice.time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if as_json:
        click.echo(json.dumps({"at": at, **advice_json(advice, pools)}))
        return
    if advice.problem or advice.view is None:
        click.echo(f"{at} no decision: {advice.problem}")
        return
    numbers = summary(advice.view)
    click.echo(
        f"{at} {numbers['pending']} pending, {numbers['running']} running; {numbers['free_gpus']} of "
        f"{quantity(numbers['gpus'], 'GPU')} free; {quantity(numbers['lent_nodes'], 'node')} lent; "
        f"{quantity(len(advice.steps), 'step')}, {sum(advice.news)} new"
    )
    for step, new in zip(advice.steps, advice.news, strict=True):
        if new:
            click.echo(f"  would {step.line(pools)}")


def _print_account(account: Account, as_json: bool) -> None:
    found = account.as_json()
    if as_json:
        click.echo(json.dumps({"account": found}))
        return
    steps = ", ".join(f"{count} {verb}" for verb, count in found["steps"].items()) or "none"
    snapshots = quantity(account.snapshots, "snapshot")
    click.echo(f"{snapshots}, {account.without_decision} without a decision; steps: {steps}")
    for why, count in found["refused"].items():
        click.echo(f"{count} would have been refused: {why}")
    if account.started:
        mean_s = account.started_after_s / account.started
        click.echo(f"Slurm started {account.started} of these jobs by itself, after {mean_s:.0f} s on average")
