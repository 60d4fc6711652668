"""Job states as Slurm writes them, and what they say about the times beside them."""

from __future__ import annotations

from collections import Counter

from mirage.job_state import MISSING, JobState

NEVER_STARTED = "job cancelled while it was pending (no start, whatever sacct shows)"
UNHEARD_STATE = "row in a state that is not one of Slurm's base states (read as UNKNOWN)"

_BY_NAME = {state.name: state for state in JobState}
_UNFINISHED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
_NO_HOSTS = frozenset({"", "none assigned"})


def job_state(text: str) -> JobState:
    """The state a word stands for: ``CANCELLED by 123`` is ``CANCELLED``; an unheard-of word ``UNKNOWN``."""
    words = text.split(maxsplit=1)
    return _BY_NAME.get(words[0].rstrip("+").upper(), JobState.UNKNOWN) if words else JobState.UNKNOWN


def is_known_state(text: str) -> bool:
    """Whether the word is one of the states in the job table, or empty."""
    return not text.strip() or job_state(text) is not JobState.UNKNOWN


def true_lifetime_s(
    state: JobState, start_s: int, end_s: int, elapsed_s: int, hosts: str | None, notes: Counter[str]
) -> tuple[int, int]:
    """The start and the end of an attempt as they were, which is not always what sacct shows.

    A job that has not ended has no end, and a pending one no start. A job cancelled while pending never
    started; sacct shows the time of its cancellation as its start.

    Args:
        state: How the attempt stands.
        start_s: As shown.
        end_s: As shown.
        elapsed_s: As shown.
        hosts: The node list, ``None`` where it was not asked for.
        notes: Counts the jobs that never started.
    """
    if state in _UNFINISHED:
        end_s = MISSING
    if state is JobState.PENDING:
        start_s = MISSING
    unassigned = hosts is not None and hosts.strip().lower() in _NO_HOSTS
    if state is JobState.CANCELLED and elapsed_s <= 0 and unassigned and start_s >= 0:
        notes[NEVER_STARTED] += 1
        start_s = MISSING
    return start_s, end_s
