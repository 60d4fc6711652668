"""Words of Slurm that stand for a missing value: ``N/A``, ``(null)``, ``Unknown`` …."""

from __future__ import annotations

from mirage.slurm_words.unicode import valid_unicode

_ABSENT = frozenset(
    {"", "(null)", "null", "n/a", "none", "none assigned", "unknown", "invalid", "not_set", "not set"}
)  # fmt: skip


def is_absent(text: str) -> bool:
    """Whether the text says that there is no value, in whatever case."""
    return text.strip().lower() in _ABSENT


def text_of(text: str) -> str:
    """The text, without spaces around it; empty where Slurm says that there is none."""
    return "" if is_absent(text) else valid_unicode(text.strip())
