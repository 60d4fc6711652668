"""What Slurm answers to a change of a link that does not wait any more."""

from __future__ import annotations

import re

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import EventRecord, Link
from mirage.errors import SlurmRefused

_WAITS_NO_MORE = re.compile(r"no longer pending|already (completing|finished|running)", re.IGNORECASE)
"""Words of slurm_errno (21.08 to 25.11) for a job that has started, or has ended already."""


def waits_no_more(error: SlurmRefused) -> bool:
    """Whether a change was refused because the link has started, which is no error: that was what it waited for."""
    return _WAITS_NO_MORE.search(str(error)) is not None


def comes_too_late(context: CycleContext, link: Link, thought: str, error: SlurmRefused) -> EventRecord:
    """The event of a second thought that Slurm has refused."""
    kind = "thought-too-late" if waits_no_more(error) else "thought-refused"
    return context.event(link.chain, link.number, kind, f"{thought} job {link.job}: {error}")
