"""``mirage doctor``: a check of this cluster for what Mirage needs."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from mirage.cli import context as cluster
from mirage.cli.options import CONTEXT, examples, json_output

_SIGNS = {"ok": ("ok", "green"), "warn": ("note", "yellow"), "fail": ("FAIL", "red")}


@click.command(context_settings=CONTEXT, epilog=examples("mirage doctor", "mirage doctor --json"))
@json_output
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look at this cluster's version, limits and settings, and say what will not work and why.

    Submits nothing and changes nothing. Exit status 1 where something will not work.
    """
    from mirage.slurm.survey import FAIL, survey

    findings = survey(cluster.client())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            sign, colour = _SIGNS[finding.level]
            click.echo(f"{click.style(f'{sign:<5}', fg=colour)} {finding.what:<14} {finding.value}")
            if finding.advice:
                click.echo(f"{'':20} {finding.advice}")
    if any(finding.level == FAIL for finding in findings):
        ctx.exit(1)
