"""``mirage submit``: a job submitted as by sbatch, and kept alive beyond its limit."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import context as cluster
from mirage.cli.commands.chain.sbatch_words import LikeSbatch, about_sbatch, caller, misplaced
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, json_output
from mirage.cli.values import DURATION, POSITIVE_DURATION
from mirage.errors import ConfigurationError, MirageError, SlurmNotAsked, SlurmUnreachable
from mirage.job_state import MISSING

if TYPE_CHECKING:
    from mirage.agent.chain.request import Request
    from mirage.agent.model import ChainSpec
    from mirage.agent.store.sql_store import SqlStore
    from mirage.policy.cost import Cost

UNKNOWN = 75
"""Exit status where it is not known whether a job was submitted (EX_TEMPFAIL of sysexits.h)."""


@click.command(
    cls=LikeSbatch,
    context_settings=CONTEXT,
    options_metavar="[SBATCH OPTIONS] [OPTIONS]",
    epilog=examples(
        "mirage submit -p gpu -N 2 --gpus-per-node=8 -t 48:00:00 --until-done train.sh --epochs 90",
        "mirage submit --for 14d --interruption-cost 5 --ready-command 'curl -sf $MIRAGE_HOST:8000/health' serve.sh",
        "mirage submit --links 10 --policy lead:4 -t 1-0 --signal-previous USR1 --grace 5m job.sh",
        "mirage submit --until 2026-12-24T18:00 serve.sh",
        "mirage submit --request-id run-7 train.sh   # asked again, it prints the same job",
        "mirage submit --dry-run train.sh",
    ),
)
@click.option("--for", "lasting", type=POSITIVE_DURATION, metavar="TIME", help="Keep it alive for so long: 14d, 36h.")
@click.option(
    "--until",
    metavar="DATE",
    help="Keep it alive until then: 2026-01-31, 2026-01-31T18:00, 18:00, tomorrow, now+3days; local time.",
)
@click.option("--links", metavar="N", type=click.IntRange(1), default=None, help="At most so many jobs.")
@click.option("--until-done", is_flag=True, help="Until a job ends by itself with exit code 0, or `mirage link done`.")
@click.option("--chain", "name", metavar="NAME", help="Name of the chain. [default: the job's and four letters]")
@click.option("--policy", metavar="NAME", help="When to request the next job. [default: what-if]")
@click.option(
    "--never-two",
    is_flag=True,
    help="Start the next job only once Slurm reports the end of the one before: never two at once, and a wait between.",
)
@click.option(
    "--least-life",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Share of a job's time limit in which the next one is not released, unless jobs of the chain have waited as "
    "long of late. [default: 0.25; 0 for policies of a constant lead]",
)
@click.option(
    "--links-a-day",
    type=click.IntRange(1),
    metavar="N",
    help="Jobs that may start within 24 hours until the chain is paused. [default: three times what their time limit "
    "needs, and 5]",
)
@cost_options(interruption=1.0, overlap=1.0)
@click.option(
    "--bank-age",
    is_flag=True,
    help="Let the policy submit a job early only to gather age while it is held. Slurm's documentation does not mean "
    "age to grow so, and sites may limit it (MaxJobsAccrue...): see `mirage doctor`. Off unless given.",
)
@click.option("--ready-command", metavar="CMD", help="Succeeds once the next job can take over.")
@click.option("--ready-by-job", is_flag=True, help="The next job says itself that it can: `mirage link ready`.")
@click.option("--warmup", type=DURATION, default="0", metavar="TIME", help="Without either: how long a job loads.")
@click.option(
    "--signal-previous",
    default="USR2",
    show_default=True,
    metavar="SIG",
    help="Sent to the previous job when the next is ready, and to each job its grace before its limit; none for none.",
)
@click.option(
    "--grace",
    type=DURATION,
    metavar="TIME",
    help="From that signal to its end. [default: 2m, at most a quarter of the time limit]",
)
@click.option(
    "--request-id", default="", metavar="KEY", help="Submit once, however often it is asked for with this key."
)
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and submit nothing.")
@click.option("--parsable", is_flag=True, help="Print the job number alone, as sbatch does.")
@click.option("--no-agent", is_flag=True, help="Do not start an agent where none runs.")
@json_output
@click.pass_context
def submit(ctx: click.Context, /, costs: CostOptions, **words: Any) -> None:
    """Submit a batch script as sbatch does, and keep it alive beyond its time limit.

    Takes every option of sbatch, and reads #SBATCH lines and the variables that sbatch reads. The first job is
    submitted now; the agent asks for each next one in time, waits until it is ready, tells the previous one to
    checkpoint, and ends it.

    Exit status: 0 submitted, 1 nothing was submitted, 2 wrong usage, 75 not known: the answer was lost, and the agent
    will find out.
    """
    from mirage.agent.chain.request import read_request
    from mirage.slurm.options import parse_sbatch

    if shutil.which("sbatch") is None:
        raise ConfigurationError(
            "there is no sbatch here; run this on a login node of the cluster, with Slurm's bin folder on PATH, "
            "or try it on a private Slurm: mirage lab up"
        )
    options, script, arguments = parse_sbatch(ctx.meta["sbatch"])
    if (status := about_sbatch(options)) is not None:
        ctx.exit(status)
    words["quiet"] = "quiet" in options
    request = read_request(options, script, arguments, caller())
    _note(words, *request.remarks, *misplaced(ctx, script, arguments))
    now_s = int(cluster.clock())
    spec = _spec(words, costs.cost(), request, now_s)
    if words["dry_run"]:
        from mirage.cli.commands.chain.dry_run import show

        name = words["name"] or _new_name(words, request)
        show(request, spec, name, as_json=words["as_json"])
        _note(words, *_endless(words, name))
        return
    with cluster.store() as store:
        name, job = _submitted(words, store, request, spec, now_s)
        try:
            _tell(words, name, job)
        finally:  # the job runs, whoever may hear of it
            if not words["no_agent"]:
                _ensure_agent(words, store, now_s)
    if job == MISSING:
        ctx.exit(UNKNOWN)


def _spec(words: Mapping[str, Any], cost: Cost, request: Request, now_s: int) -> ChainSpec:
    """The specification of the chain, checked before anything is submitted."""
    from mirage.agent.chain.spec_check import (
        check_spec,
        default_grace_s,
        least_limit_s,
        limit_s,
        policy_name,
        signal_name,
        slurm_warning_s,
    )
    from mirage.agent.model import ChainSpec
    from mirage.policy.registry import lasting_name

    if words["ready_command"] is not None and not words["ready_command"].strip():
        raise ConfigurationError("--ready-command is empty; give a command, or leave the option out")
    has_end = _has_end(words)
    grace_s = words["grace"] if words["grace"] is not None else default_grace_s(limit_s(request.given))
    policy = policy_name(words["policy"], never_two=words["never_two"])
    signal = signal_name(words["signal_previous"])
    spec = ChainSpec(
        request.submission,
        until_s=_until_s(words, now_s),
        links=words["links"] or 0,
        until_done=words["until_done"] or not has_end,
        policy=lasting_name(policy),
        interruption_cost=cost.interruption,
        overlap_cost=cost.overlap,
        ready_command=words["ready_command"] or "",
        ready_by_job=words["ready_by_job"],
        warmup_s=words["warmup"],
        signal=signal,
        grace_s=grace_s,
        request_id=words["request_id"],
        bank_age=words["bank_age"],
        least_limit_s=least_limit_s(request.given),
        slurm_warning_s=slurm_warning_s(request.given, signal, grace_s),
        least_life=words["least_life"] if words["least_life"] is not None else MISSING,
        links_a_day=words["links_a_day"] or 0,
        never_two=words["never_two"],
    )
    check_spec(spec, request.given, Path(request.submission.directory), has_end=has_end, name=words["name"] or "")
    return spec


def _has_end(words: Mapping[str, Any]) -> bool:
    """Whether the user says when the chain is over."""
    return words["until_done"] or any(words[name] is not None for name in ("lasting", "until", "links"))


def _until_s(words: Mapping[str, Any], now_s: int) -> int:
    """The instant after which no link starts; ``MISSING`` for none.

    Raises:
        ConfigurationError: ``--until`` names no time, or one that has passed.
    """
    from mirage.slurm_words.timestamps import next_instant_s

    lasting_s, until = words["lasting"], words["until"]
    if until is None:
        return now_s + lasting_s if lasting_s else MISSING
    if lasting_s is not None:
        raise click.UsageError("--for and --until both say when the chain ends; give one of them")
    try:
        until_s = next_instant_s(until, now_s)
    except ConfigurationError as error:
        raise ConfigurationError(f"--until {error}") from error
    if until_s <= now_s:
        instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(until_s))
        raise ConfigurationError(f"--until {until}: {instant} has passed; give a time that is still to come")
    return until_s


def _endless(words: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A remark on a chain of which the user has not said when it ends."""
    if _has_end(words):
        return ()
    return (
        f"chain {name} has no end: jobs follow one another until one exits with 0 well before its limit, or "
        f"`mirage chain stop {name}`; --links, --for, --until or --until-done say when it ends",
    )


def _new_name(words: Mapping[str, Any], request: Request) -> str:
    from mirage.agent.chain.create import name_for

    return name_for(request.job_name, words["request_id"])


def _submitted(
    words: Mapping[str, Any], store: SqlStore, request: Request, spec: ChainSpec, now_s: int
) -> tuple[str, int]:
    """Name and first job of the chain, new or made by the same request before; ``MISSING`` where the job is not known.

    Raises:
        SlurmNotAsked: Slurm was not reached, and nothing was submitted.
        SlurmRefused: sbatch said no.
    """
    from mirage.agent.chain.create import chain_of_request, create_chain

    key = words["request_id"]
    if key and (known := chain_of_request(store, key)) is not None:
        return _known(words, *known)
    name, slurm = words["name"] or _new_name(words, request), cluster.client()
    try:
        job = create_chain(store, slurm, cluster.home(), request, spec, name, now_s)
    except ConfigurationError:
        if key and (known := chain_of_request(store, key)) is not None:  # somebody was quicker with the same request
            return _known(words, *known)
        raise
    except SlurmNotAsked:
        click.echo("mirage: nothing was submitted, and there is no chain: try again", err=True)
        raise
    except SlurmUnreachable as error:
        click.echo(f"mirage: {error}", err=True)
        click.echo(
            f"mirage: it is not known whether a job was submitted; chain {name} stands, and the agent will find out: "
            f"do not submit it again, see `mirage chain show {name}`",
            err=True,
        )
        return name, MISSING
    _note(words, *slurm.remarks.splitlines(), *_endless(words, name))
    return name, job


def _known(words: Mapping[str, Any], name: str, job: int) -> tuple[str, int]:
    if job == MISSING:
        click.echo(f"mirage: request {words['request_id']} has made chain {name}; its job is not known yet", err=True)
    else:
        _note(words, f"request {words['request_id']} was submitted before")
    return name, job


def _note(words: Mapping[str, Any], *lines: str) -> None:
    """Tell what is no error, unless sbatch's own --quiet is given."""
    for line in lines if not words["quiet"] else ():
        click.echo(line, err=True)


def _tell(words: Mapping[str, Any], name: str, job: int) -> None:
    """Print the job's number as sbatch does, at once."""
    if words["as_json"]:
        click.echo(json.dumps({"chain": name, "job": job if job != MISSING else None}))
    elif job != MISSING and not words["quiet"]:
        click.echo(str(job) if words["parsable"] else f"Submitted batch job {job}")
    sys.stdout.flush()
    _note(words, f"chain {name}")


def _ensure_agent(words: Mapping[str, Any], store: SqlStore, now_s: int) -> None:
    """Start an agent where none runs; that it cannot be started is told, and no failure: the job is submitted."""
    from mirage.agent.service import running_agent, start

    try:
        if (found := running_agent(store, now_s)) is not None:
            _note(words, f"the agent on {found.host} (process {found.pid}) looks after it")
            return
        pid = start(cluster.home(), os.environ)
        _note(words, f"no agent was running: started one here (process {pid}); see `mirage agent status`")
    except (MirageError, OSError) as error:
        click.echo(
            f"mirage: warning: no agent was started: {error}; nothing looks after the chain until `mirage agent start` "
            "succeeds",
            err=True,
        )
