"""A trial: one independent part of a study, with a key of all that determines its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mirage.source_digest import source_digest
from mirage.version import __version__

DIGITS = 16
"""Hexadecimal digits of a key."""


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """The reason why a trial has no result."""

    error: str


def key_of(*inputs: object) -> str:
    """Digest of the inputs of a result: bytes, or values that ``repr`` shows completely."""
    digest = hashlib.sha256()
    for one in inputs:
        content = one if isinstance(one, bytes) else repr(one).encode()
        digest.update(f"{len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGITS]


def code_key(modules: Iterable[str], *packages: str) -> str:
    """Key of code: modules with all that they import, and versions of packages.

    Args:
        modules: Full names; docstrings and comments do not count.
        packages: Installed packages that the result depends on, besides Mirage.

    Raises:
        ModuleNotFoundError: A module has no source file.
    """
    return key_of(__version__, [(package, _version(package)) for package in packages], source_digest(modules))


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
