"""``mirage link``: the state of a job, reported from inside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.lazy import CommandGroup
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.values import DURATION_WITH_UNIT
from mirage.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from mirage.agent.chain.tag import Tag
    from mirage.agent.takeover import TakenOver
    from mirage.slurm.records import QueuedJob


@click.group(
    cls=CommandGroup,
    context_settings=CONTEXT,
    epilog=examples("mirage link ready", "mirage link takeover", "mirage link drain", "mirage link done"),
)
def link() -> None:
    """Inside a job of a chain: report that it is ready or done, take over, complete requests.

    The reports are stored in the job's own comment, so they work on any node where scontrol works.
    """


@link.command(context_settings=CONTEXT, epilog=examples("mirage link ready"))
def ready() -> None:
    """Report that this job can take over: the previous job is then signalled to leave.

    Submit the chain with --ready-by-job, so that it waits for this report. Without that option, the report is ignored
    and a remark says so.
    """
    ready_s = int(cluster.clock())  # what follows takes seconds on a busy node, and the job serves meanwhile
    _, tag = _own()
    _write(tag.with_marks(ready_s=ready_s))
    _remark(tag)


@link.command(context_settings=CONTEXT, epilog=examples("mirage link done"))
def done() -> None:
    """Report that the work is done: the chain ends, and this job continues to its own end.

    The later jobs of the chain are cancelled at once. The agent cancels an earlier job that still runs, and submits no
    other.
    """
    from mirage.agent.chain.tag import parse_tag
    from mirage.slurm_words.states import ALIVE

    own, tag = _own()
    _write(tag.with_marks(done=True))
    slurm = cluster.client()
    for job in slurm.observe().jobs:
        other = parse_tag(job.comment)
        if other is None or own is None or job.user != own.user or job.id == own.id or job.state not in ALIVE:
            continue
        if (other.store, other.key) == (tag.store, tag.key) and other.link > tag.link:
            slurm.cancel(job.id)


@link.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage link drain",
        "mirage link drain --metrics http://localhost:8000/metrics --for 10s",
        "mirage link drain --metrics http://localhost:9000/metrics --gauge my_requests_active --at-most 10m",
    ),
)
@click.option(
    "--metrics",
    "url",
    default="http://localhost:8000/metrics",
    show_default=True,
    metavar="URL",
    help="Metrics of this job's server, in the text format of Prometheus.",
)
@click.option(
    "--for",
    "quiet_s",
    type=DURATION_WITH_UNIT,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Time without a request after which the server is drained. A proxy needs less to change to the next job.",
)
@click.option(
    "--at-most",
    "most_s",
    type=DURATION_WITH_UNIT,
    metavar="TIME",
    help="Longest wait.  [default: none; the grace of the chain ends the job]",
)
@click.option(
    "--gauge",
    "gauges",
    multiple=True,
    metavar="NAME",
    help="Metric with the number of requests in flight, of a server that Mirage does not know; may be repeated.",
)
def drain(url: str, quiet_s: int, most_s: int | None, gauges: tuple[str, ...]) -> None:
    """Wait until the server of this job has no request in flight.

    Call it when the warning signal has come, and end the server afterwards. It reads the metrics of vLLM, SGLang, TGI,
    llama.cpp and LiteLLM. It needs neither Slurm nor an agent. Exit status: 0 no request is in flight, 1 some are.
    """
    import math
    import signal
    from time import sleep

    from mirage.agent.drain import check_url, read_requests
    from mirage.agent.drain import drain as wait_for_requests
    from mirage.duration import format_duration
    from mirage.errors import MirageError, quantity
    from mirage.real_time import real_s

    check_url(url)
    if not all(gauges):
        raise click.UsageError("--gauge is empty; name a metric, or leave the option out")
    if most_s is not None and most_s < quiet_s:
        raise click.UsageError("--at-most is shorter than --for, so the server could never be drained in it")
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # a second warning to all processes of the job must not end this
        signal.signal(number, signal.SIG_IGN)
    result = wait_for_requests(
        lambda: read_requests(url, gauges),
        quiet_s=quiet_s,
        most_s=math.inf if most_s is None else most_s,
        real_s=real_s,
        sleep=sleep,
    )
    took = format_duration(round(result.took_s))
    if result.trouble:
        raise MirageError(
            f"it is not known after {took} whether a request is in flight: {result.trouble}; check --metrics"
        )
    if result.in_flight:
        left = quantity(result.in_flight, "request")
        raise MirageError(f"{left} still in flight after {took}; give a longer --at-most, or end the server now")
    if result.gone:
        click.echo(f"mirage: warning: no server listens at {url}: nothing to drain", err=True)
    else:
        click.echo(f"mirage: no request in flight for {format_duration(quiet_s)}; drained in {took}", err=True)


@link.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage link takeover",
        "mirage link takeover --progress-file 'ckpt/step_*'",
        "mirage link takeover --progress-file $MIRAGE_PROGRESS_FILE --max-overlap 20m --json",
    ),
)
@click.option(
    "--progress-file",
    "pattern",
    metavar="FILE",
    help="Path of the checkpoints, with * and ?, or of the progress file.  [default: $MIRAGE_PROGRESS_FILE]",
)
@click.option(
    "--max-overlap",
    "most_s",
    type=DURATION_WITH_UNIT,
    default="45m",
    show_default=True,
    metavar="TIME",
    help="Longest wait. After it, this command fails, so that the nodes of this job do not stay idle.",
)
@click.option(
    "--signal-after",
    type=DURATION_WITH_UNIT,
    metavar="TIME",
    help="Signal the previous job from here if it has not left after TIME: no agent runs then.  [default: 2m, or the "
    "grace of the chain and a minute if that is longer]",
)
@click.option(
    "--signal",
    "name",
    default="USR2",
    show_default=True,
    metavar="NAME",
    help="Signal for the previous job; or none.",
)
@click.option(
    "--no-wait",
    is_flag=True,
    help="Only print the newest checkpoint: for a run that is no job of a chain. mirage.hooks uses it there.",
)
@json_output
def takeover(
    pattern: str | None, most_s: int, signal_after: int | None, name: str, no_wait: bool, as_json: bool
) -> None:
    """Report that this training is loaded, and wait until the previous job has saved and left.

    Call it when everything but the checkpoint is loaded. It prints the checkpoint that was changed last, and returns:
    load that, and train. Names that end in .tmp, .temp, .part or .partial are left out. It needs scontrol, squeue and
    scancel on the node, but no agent. Exit status: 0 this job may train, 1 it must not, as another job of the chain may
    still train.
    """
    import json

    from mirage.agent.chain.spec_check import signal_name
    from mirage.agent.takeover import TakenOver, newest_checkpoint

    signal = signal_name(name, "--signal")
    if signal_after is not None and not signal:
        raise click.UsageError("--signal none sends no signal; leave it or --signal-after out")
    if signal_after is not None and signal_after > most_s:
        raise click.UsageError("--signal-after is longer than --max-overlap, so no signal would be sent")
    if no_wait and (chain := os.environ.get("MIRAGE_CHAIN")):
        raise click.UsageError(f"--no-wait is not for a job of a chain, and this one belongs to {chain}; leave it out")
    steps_file = os.environ.get("MIRAGE_PROGRESS_FILE")
    pattern = pattern or steps_file
    only_steps = pattern == steps_file
    before = newest_checkpoint(pattern, ".", only_steps=only_steps) if pattern else None
    result = TakenOver((), 0.0, signalled=False) if no_wait else _waited(most_s, signal_after, signal)
    found = newest_checkpoint(pattern, ".", only_steps=only_steps) if pattern else None
    numbers = [one.id for one in result.previous]
    if not pattern:
        click.echo("mirage: prints no checkpoint: neither --progress-file nor MIRAGE_PROGRESS_FILE names one", err=True)
    elif numbers and found == before:
        newest = f"the newest is {found.text}" if found is not None else f"there is none at {pattern}"
        click.echo(f"mirage: warning: job {numbers[-1]} left without a new checkpoint: {newest}", err=True)
    if as_json:
        row = {
            "checkpoint": found.text if found is not None else None,
            "is_new": found is not None and found != before,
            "previous_jobs": numbers,
            "waited_s": round(result.waited_s, 1),
            "signalled": result.signalled,
        }
        click.echo(json.dumps(row))
    elif found is not None:
        click.echo(found.text)


def _waited(most_s: int, signal_after: int | None, signal: str) -> TakenOver:
    """Waits until the earlier jobs of the chain have left.

    Raises:
        MirageError: This job must not train.
    """
    import math
    from time import sleep

    from mirage.agent.chain.tag import parse_tag
    from mirage.agent.site_file import read_site_files
    from mirage.agent.takeover import EVERY_S, TakeOver, signal_after_s
    from mirage.duration import format_duration
    from mirage.real_time import real_s

    job = os.environ.get("SLURM_JOB_ID", "")
    if not job.isdecimal():
        raise ConfigurationError("this is not a job: SLURM_JOB_ID is not set; call it in the script of a chain's job")
    site = read_site_files(os.environ)
    if site.most_overlap_s is not None and most_s > site.most_overlap_s:
        most_s = site.most_overlap_s
        shorter = f"--max-overlap counts as {format_duration(most_s)}, the longest overlap that this site allows"
        click.echo(f"mirage: {site.refusal(shorter)}", err=True)
    wait = TakeOver(
        cluster.client(),
        int(job),
        parse_tag(os.environ.get("MIRAGE_TAG", "")),
        (signal, bool(os.environ.get("MIRAGE_WRAPPED"))),
        cluster.clock,
        real_s,
        sleep,
        lambda line: click.echo(f"mirage: {line}", err=True),
        most_s=most_s,
        signal_after_s=(signal_after or signal_after_s(os.environ, most_s)) if signal else math.inf,
        every_s=max(EVERY_S, site.least_poll_s),
        ready_file=os.environ.get("MIRAGE_READY", ""),  # of a chain without an agent
    )
    result = wait.run()
    if wait.tag is not None:
        _remark(wait.tag)
    return result


def _remark(tag: Tag) -> None:
    """Prints that the report is ignored, if the chain does not wait for it."""
    from mirage.agent.chain.submission import READY_AFTER
    from mirage.duration import format_duration

    after = os.environ.get(READY_AFTER, "")
    if after.isdecimal():
        when = f"{format_duration(int(after))} after its start (--warmup)" if int(after) else "from its start on"
        click.echo(
            f"mirage: `mirage link ready` is ignored: chain {tag.chain} takes each job to be ready {when}; submit it "
            "with --ready-by-job, so that it waits for this report",
            err=True,
        )


def _own() -> tuple[QueuedJob | None, Tag]:
    """Returns this job as the queue shows it, and its tag."""
    from mirage.agent.chain.tag import parse_tag, tag_of_this_job

    inherited, job = parse_tag(os.environ.get("MIRAGE_TAG", "")), os.environ.get("SLURM_JOB_ID", "")
    if (job or inherited is not None) and not job.isdecimal():
        raise ConfigurationError(
            f"SLURM_JOB_ID is {shown(job)}, no number of a job: run this in the job, with the variables of Slurm"
        )
    jobs = cluster.client().observe().jobs if job.isdecimal() else ()
    own = next((one for one in jobs if one.id == int(job)), None)
    return own, tag_of_this_job(own, inherited, jobs)


def _write(tag: Tag) -> None:
    cluster.client().update(int(os.environ["SLURM_JOB_ID"]), {"Comment": str(tag)})
