"""Words of Slurm for a missing value: ``N/A``, ``(null)``, ``Unknown`` …."""

from __future__ import annotations

from mirage.slurm_words.unicode import valid_unicode

_ABSENT = frozenset(
    {"", "(null)", "null", "n/a", "none", "none assigned", "unknown", "invalid", "not_set", "not set"}
)  # fmt: skip


def is_absent(text: str) -> bool:
    """Whether the text is one of Slurm's words for a missing value, in any case."""
    return text.strip().lower() in _ABSENT


def text_of(text: str) -> str:
    """The text, stripped; empty where Slurm reports a missing value."""
    return "" if is_absent(text) else valid_unicode(text.strip())
