"""The findings of a check, as ``mirage doctor`` prints them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mirage.slurm.survey import Finding

_SIGNS = {"ok": ("ok", "green"), "warn": ("note", "yellow"), "fail": ("FAIL", "red")}


def print_findings(findings: Sequence[Finding], as_json: bool) -> bool:
    """Prints findings; returns whether one of them is a failure."""
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            sign, colour = _SIGNS[finding.level]
            click.echo(f"{click.style(f'{sign:<5}', fg=colour)} {finding.what:<14} {finding.value}")
            if finding.advice:
                click.echo(f"{'':20} {finding.advice}")
    return any(finding.level == "fail" for finding in findings)
