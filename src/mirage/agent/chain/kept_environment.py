"""The part of a user's environment that is kept with a chain: what sbatch exports and the user allows."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

KEEP_OUT = "MIRAGE_KEEP_OUT"
"""Patterns of names, with commas between them: ``*TOKEN*,AWS_*``. Such variables reach no link, and are not kept."""

_ALL = ("", "all")
_NEEDED_WORDS = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD KRB5CCNAME XDG_RUNTIME_DIR
"""
_NEEDED = frozenset(_NEEDED_WORDS.split())
_NEEDED_BEGIN = ("SLURM_", "SBATCH_", "SPANK_", "LC_", "FAKETIME")
"""What sbatch itself needs and hands on in any case, and what a ready command is run with."""


def kept_environment(environment: Mapping[str, str], export: str | None) -> dict[str, str]:
    """The variables that every link's sbatch is to see.

    Args:
        export: The value of ``--export``, from wherever it comes.
    """
    words = {word.partition("=")[0] for word in (export or "").split(",")}
    everything = any(word.lower() in _ALL for word in words)
    return {
        name: value
        for name, value in environment.items()
        if (everything or name in words or name in _NEEDED or name.startswith(_NEEDED_BEGIN))
        and not kept_out(name, environment)
    }


def kept_out(name: str, environment: Mapping[str, str]) -> bool:
    """Whether the user keeps a variable from the jobs."""
    patterns = environment.get(KEEP_OUT, "").split(",")
    return any(fnmatchcase(name, pattern.strip()) for pattern in patterns)
