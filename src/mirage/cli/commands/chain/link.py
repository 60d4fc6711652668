"""``mirage link``: the state of a job, reported from inside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mirage.cli import cli_context as cluster
from mirage.cli.lazy import CommandGroup
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.agent.chain.tag import Tag
    from mirage.slurm.records import QueuedJob


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog=examples("mirage link ready", "mirage link done"))
def link() -> None:
    """Inside a job of a chain: report that it is ready, or that the work is done.

    The report is stored in the job's own comment, so this works on any node where scontrol works.
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
    from mirage.agent.chain.tag import parse_tag

    from_environment, job = parse_tag(os.environ.get("MIRAGE_TAG", "")), os.environ.get("SLURM_JOB_ID", "")
    own = None
    if job.isdecimal():
        own = next((one for one in cluster.client().observe().jobs if one.id == int(job)), None)
    tag = (parse_tag(own.comment) if own is not None else None) or from_environment
    if tag is None or not job.isdecimal():  # an adopted job has its tag in its comment only
        raise ConfigurationError(
            "this is not a job of a chain: neither MIRAGE_TAG nor the comment of the job SLURM_JOB_ID shows one; "
            "submit it with `mirage submit`, or `mirage adopt` it"
        )
    return own, tag


def _write(tag: Tag) -> None:
    cluster.client().update(int(os.environ["SLURM_JOB_ID"]), {"Comment": str(tag)})
