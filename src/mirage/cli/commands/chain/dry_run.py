"""``mirage submit --dry-run``: what would be submitted, and sbatch's answer to it."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage.cli import context as cluster

if TYPE_CHECKING:
    from mirage.agent.chain.request import Request
    from mirage.agent.model import ChainSpec


STORE = "STORE"
"""Placeholder of the random part of a tag."""


def show(request: Request, spec: ChainSpec, name: str, *, as_json: bool) -> None:
    """Prints the command lines of the first and next job, and sbatch's answer to the first.

    Raises:
        SlurmRefused: sbatch would refuse the first job.
    """
    from mirage.agent.chain.create import with_scripts
    from mirage.agent.chain.submission import FIRST_LINK_ONLY, link_submission
    from mirage.agent.model import Chain
    from mirage.agent.paths import Home
    from mirage.job_state import MISSING
    from mirage.slurm.sbatch_options import to_argv

    with tempfile.TemporaryDirectory() as folder:
        copied = with_scripts(Home(Path(folder), ""), request, spec, name)
        chain = Chain(0, name, copied, 0, key="KEY")
        lines = []
        for number, previous in ((1, MISSING), (2, 0)):
            link = link_submission(chain, STORE, number, previous, hold=number > 1)
            text = shlex.join(["sbatch", *to_argv(link.options), request.script_name, *link.arguments])
            lines.append(text.replace("afterany:0", "afterany:JOB"))
        answer = cluster.client().test(link_submission(chain, STORE, 1, MISSING, hold=False))
    left_out = [f"--{option}" for option in FIRST_LINK_ONLY if option in request.given] if copied.later_script else []
    if as_json:
        record = {"chain": name, "first": lines[0], "next": lines[1], "left_out": left_out, "sbatch": answer}
        click.echo(json.dumps(record))
        return
    click.echo(f"chain {name}, policy {spec.policy}")
    click.echo(f"now:   {lines[0]}")
    click.echo(f"then, as soon as that one runs: {lines[1]}")
    if left_out:
        click.echo(f"       with a copy of the script that lacks {' and '.join(left_out)}, which are for the first job")
    click.echo(answer, err=True)
