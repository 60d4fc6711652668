"""Time limits in Slurm's text: ``2-00:00:00``, ``UNLIMITED``, minutes."""

from __future__ import annotations

from mirage.duration import MINUTE_S, UNLIMITED_S, parse_duration_s
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.slurm_words.absent import is_absent
from mirage.slurm_words.numbers import whole_number


def is_no_limit(text: str) -> bool:
    """Whether the text gives no limit, or only refers to the partition's."""
    return is_absent(text) or text.strip().lower() == "partition_limit"


def limit_s(text: str) -> int:
    """A time limit as Slurm prints it; ``MISSING`` for none and for the partition's limit."""
    if is_no_limit(text):
        return MISSING
    try:
        return parse_duration_s(text.strip())
    except (ConfigurationError, ValueError, OverflowError):  # OverflowError: thousands of digits
        return MISSING


def limit_in_minutes_s(text: str) -> int:
    """A time limit in minutes (``TimelimitRaw``), in seconds; ``MISSING`` for none."""
    if text.strip().upper() == "UNLIMITED":
        return UNLIMITED_S
    minutes = whole_number(text.strip())
    return MISSING if minutes is None else minutes * MINUTE_S
