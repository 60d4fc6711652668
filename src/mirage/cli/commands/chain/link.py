"""``mirage link``: the state of a job, said from inside it."""

from __future__ import annotations

import os

import click

from mirage.cli import context as cluster
from mirage.cli.lazy import CommandGroup
from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog=examples("mirage link ready", "mirage link done"))
def link() -> None:
    """Inside a job of a chain: say that it is ready, or that the work is done.

    The word travels in the job's own comment, so this works on any node from which scontrol does.
    """


@link.command(context_settings=CONTEXT, epilog=examples("mirage link ready"))
def ready() -> None:
    """Say that this job can take over: the previous one is then told to leave."""
    _say(ready=True)


@link.command(context_settings=CONTEXT, epilog=examples("mirage link done"))
def done() -> None:
    """Say that the work is done: the chain ends, and the next job leaves the queue."""
    from mirage.agent.chain.tag import parse_tag
    from mirage.job_state import JobState

    chain, number = _say(done=True)
    slurm = cluster.client()
    for job in slurm.observe().jobs:
        tag = parse_tag(job.comment)
        if tag is not None and tag.chain == chain and tag.link > number and job.state is JobState.PENDING:
            slurm.cancel(job.id)


def _say(*, ready: bool = False, done: bool = False) -> tuple[str, int]:
    """The chain and the number of this job, after a word is added to its comment."""
    from mirage.agent.chain.tag import Tag, parse_tag

    chain, number, job = (os.environ.get(name, "") for name in ("MIRAGE_CHAIN", "MIRAGE_LINK", "SLURM_JOB_ID"))
    if not (chain and number.isdecimal() and job.isdecimal()):
        raise ConfigurationError(
            "this is no job of a chain: MIRAGE_CHAIN, MIRAGE_LINK and SLURM_JOB_ID are not all set; "
            "submit it with `mirage submit`"
        )
    slurm = cluster.client()
    present = next((one.comment for one in slurm.observe().jobs if one.id == int(job)), "")
    tag = parse_tag(present) or Tag(chain, int(number))
    slurm.update(int(job), {"Comment": str(tag.saying(ready=ready, done=done))})
    return chain, int(number)
