"""Single values in Slurm's text: times, limits, counts, words that mean nothing."""

from __future__ import annotations

import time

from mirage.duration import parse_duration_s
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.states import job_state
from mirage.slurm_words.tres import gres_gpus_per_node, tres_gpus

_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "INVALID", "NOT_SET", "null"})
_SUFFIX = {"K": 1024, "M": 1024**2, "G": 1024**3}

HOLDS_NODES = frozenset({"COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"})
"""States that squeue shows for jobs that hold nodes, beyond RUNNING."""

WAITS = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
"""States that squeue shows for jobs that are in the queue again."""


def text_of(text: str) -> str:
    """The text, empty where Slurm says that there is none."""
    stripped = text.strip()
    return "" if stripped in _NOTHING else stripped


def state_of(text: str) -> JobState:
    """A state of the queue in one of the base states: a completing job still runs, a requeued one is pending."""
    word = text.strip().upper()
    if word in HOLDS_NODES:
        return JobState.RUNNING
    if word in WAITS:
        return JobState.PENDING
    return job_state(word)


def instant_s(text: str) -> int:
    """Seconds since 1970 of a number or of an ISO time in this machine's zone; ``MISSING`` for none or for nonsense."""
    word = text.strip()
    if word.isdecimal():
        return int(word) or MISSING
    if word in _NOTHING:
        return MISSING
    try:
        return int(time.mktime(time.strptime(word[:19], "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        return MISSING


def limit_s(text: str) -> int:
    """A time limit as Slurm prints it; ``MISSING`` where there is none to read, or the partition's is meant."""
    word = text.strip()
    if word in _NOTHING or word == "Partition_Limit":
        return MISSING
    try:
        return parse_duration_s(word)
    except ConfigurationError:
        return MISSING


def whole(text: str, otherwise: int = 0) -> int:
    """A count: ``8``, ``2-4`` (the least), ``1K``, ``4.0``; else the default."""
    word = text.strip().partition("-")[0]
    if word[-1:].upper() in _SUFFIX and word[:-1].isdecimal():
        return int(word[:-1]) * _SUFFIX[word[-1].upper()]
    try:
        return int(float(word))
    except (ValueError, OverflowError):
        return otherwise


def decimal(text: str) -> float:
    """A number; 0 where there is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def gpus_of(tres: str, gres: str, nodes: int) -> int:
    """GPUs of a job in all, from what it was given or asked for; ``gres/gpu=8`` and ``gres:gpu:8`` alike."""
    allocated = tres_gpus(tres)
    if allocated > 0:
        return allocated
    per_node = gres_gpus_per_node(gres.replace("gres/", "gres:")) if gres else 0
    return per_node * max(nodes, 1)


def exit_of(text: str) -> tuple[int, int]:
    """Exit code and signal in ``1:0``."""
    code, _, sign = text.strip().partition(":")
    return whole(code), whole(sign)
