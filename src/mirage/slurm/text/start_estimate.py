"""Slurm's own estimate of a start, from what ``sbatch --test-only`` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mirage.job_state import MISSING
from mirage.slurm_words.timestamps import instant_s

_ESTIMATE = re.compile(
    r"Job \d+ to start at (?P<start>\S+) using (?P<cpus>\d+) processors on (?:nodes )?(?P<nodes>\S*)"
    r"(?: in partition (?P<partition>\S+))?"
)


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The start in Slurm's plan for a job that was not submitted.

    Attributes:
        start_s: When it would start.
        nodes: The hosts, as a host list.
        partition: The partition; empty where an old version does not print it.
    """

    start_s: int
    nodes: str
    partition: str


def read_estimate(stderr: str) -> StartEstimate | None:
    """The estimate in the output of sbatch; None where it names no time.

    Args:
        stderr: Text on standard error: ``sbatch: Job 7 to start at 2026-01-31T12:00:00 using 4 processors on nodes
            n[1-2] in partition main``. Times may be seconds since 1970 (``SLURM_TIME_FORMAT=%s``).
    """
    found = _ESTIMATE.search(stderr)
    if found is None or (start_s := instant_s(found["start"])) == MISSING:
        return None
    return StartEstimate(start_s, found["nodes"], found["partition"] or "")
