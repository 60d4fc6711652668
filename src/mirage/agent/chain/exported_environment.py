"""The part of a user's environment that is stored with a chain.

That is what sbatch exports and the user allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

EXCLUDED = "MIRAGE_KEEP_OUT"
"""Patterns of names, separated by commas: ``*TOKEN*,AWS_*``. Such variables reach no link, and are not stored."""

_ALL = ("", "all")
_NEEDED_WORDS = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD KRB5CCNAME XDG_RUNTIME_DIR
"""
_NEEDED = frozenset(_NEEDED_WORDS.split())
_NEEDED_BEGIN = ("SLURM_", "SBATCH_", "SPANK_", "LC_", "FAKETIME")
"""Variables that sbatch itself needs and passes on in any case, and those of a ready command."""


def exported_environment(environment: Mapping[str, str], export: str | None) -> dict[str, str]:
    """The variables for every link's sbatch.

    Args:
        export: The value of ``--export``, from any source.
    """
    words = {word.partition("=")[0] for word in (export or "").split(",")}
    everything = any(word.lower() in _ALL for word in words)
    return {
        name: value
        for name, value in environment.items()
        if (everything or name in words or name in _NEEDED or name.startswith(_NEEDED_BEGIN))
        and not is_excluded(name, environment)
    }


def is_excluded(name: str, environment: Mapping[str, str]) -> bool:
    """Whether the user excludes a variable from the jobs."""
    patterns = environment.get(EXCLUDED, "").split(",")
    return any(fnmatchcase(name, pattern.strip()) for pattern in patterns)
