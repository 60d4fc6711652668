"""Slurm's refusals of changes to a link that is not pending any more."""

from __future__ import annotations

import re

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import EventRecord, Link
from mirage.errors import SlurmRefused

_WAITS_NO_MORE = re.compile(r"no longer pending|already (completing|finished|running)", re.IGNORECASE)
"""Messages of slurm_errno (21.08 to 25.11) for a job that has started or ended."""


def waits_no_more(error: SlurmRefused) -> bool:
    """Whether Slurm refused because the link has started, which is no error."""
    return _WAITS_NO_MORE.search(str(error)) is not None


def comes_too_late(context: CycleContext, link: Link, action: str, error: SlurmRefused) -> EventRecord:
    """The event of a revision that Slurm has refused."""
    kind = "thought-too-late" if waits_no_more(error) else "thought-refused"
    return context.event(link.chain, link.number, kind, f"{action} job {link.job}: {error}")
