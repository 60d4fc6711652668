"""Job states as Slurm prints them, and corrections to the times printed with them."""

from __future__ import annotations

from collections import Counter

from mirage.job_state import MISSING, UNFINISHED, JobState
from mirage.slurm_words.absent import is_absent

NEVER_STARTED = "job that ended while it was pending (no start, whatever sacct shows)"
UNHEARD_STATE = "row in a state that is not one of Slurm's base states (read as UNKNOWN)"

ALIVE = UNFINISHED | {JobState.REQUEUED, JobState.UNKNOWN}
"""States of a job that may run, or run again; an unknown state counts as alive."""

HOLDS_NODES = frozenset({"COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"})
"""States other than RUNNING that squeue shows for jobs that hold nodes."""

WAITS = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
"""States that squeue shows for requeued jobs."""

_BY_NAME = {state.name: state for state in JobState} | {"RESIZING": JobState.RUNNING}
"""Accounting ends a row in RESIZING where a running job gets another size, and continues in a new row."""


def job_state(text: str) -> JobState:
    """The state of a word; ``CANCELLED by 123`` is ``CANCELLED``, an unknown word ``UNKNOWN``.

    A plus ends a word that sacct has cut: ``OUT_OF_ME+``.
    """
    word = text.upper().split(maxsplit=1)[0] if text.strip() else ""
    if (state := _BY_NAME.get(word)) is not None:
        return state
    cut = [state for name, state in _BY_NAME.items() if word.endswith("+") and name.startswith(word[:-1])]
    return cut[0] if len(cut) == 1 else JobState.UNKNOWN


def is_known_state(text: str) -> bool:
    """Whether the word is one of the states in the job table, or empty."""
    return not text.strip() or job_state(text) is not JobState.UNKNOWN


def state_of(text: str) -> JobState:
    """The base state of a state of the queue.

    A completing job still runs, a requeued one is pending.
    """
    word = text.strip().upper()
    if word in HOLDS_NODES:
        return JobState.RUNNING
    if word in WAITS:
        return JobState.PENDING
    return job_state(word)


def is_completing(text: str) -> bool:
    """Whether a job in this state only holds nodes until they are cleaned up."""
    return text.strip().upper() == "COMPLETING"


def cancelled_while_pending(
    state: JobState, start_s: int, end_s: int, elapsed_s: int = MISSING, hosts: str | None = None
) -> bool:
    """Whether a job was cancelled, or ended by its deadline, before it started.

    Accounting then shows this time as its start. Such a job ran for no time and on no host; where
    the hosts are not known, an equal start and end decide.

    Args:
        state: How the attempt ended.
        start_s: As shown.
        end_s: As shown.
        elapsed_s: As shown; ``MISSING`` where it was not requested.
        hosts: The node list; ``None`` where it was not requested.
    """
    if state not in (JobState.CANCELLED, JobState.DEADLINE) or start_s < 0 or elapsed_s > 0:
        return False
    return start_s == end_s if hosts is None else is_absent(hosts)


def true_lifetime_s(
    state: JobState, start_s: int, end_s: int, elapsed_s: int, hosts: str | None, notes: Counter[str]
) -> tuple[int, int]:
    """The true start and end of an attempt, which sacct does not always show.

    A job that has not ended has no end; a pending job and one cancelled while pending have no start.

    Args:
        state: State of the attempt.
        start_s: As shown.
        end_s: As shown.
        elapsed_s: As shown.
        hosts: The node list; ``None`` where it was not requested.
        notes: Counts the jobs that never started.
    """
    if state in UNFINISHED:
        end_s = MISSING
    if state is JobState.PENDING:
        start_s = MISSING
    if cancelled_while_pending(state, start_s, end_s, elapsed_s, hosts):
        notes[NEVER_STARTED] += 1
        start_s = MISSING
    return start_s, end_s
