"""Keys of trials, by which stored results are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import mirage
from mirage.errors import ConfigurationError
from mirage.schedule.compare.trial import Setting, Trial
from mirage.source_digest import source_digest


def keys_of(trials: Sequence[Trial], setting: Setting) -> dict[Trial, str]:
    """One digest per trial of all that determines its outcome.

    It covers the files, the settings, and the code that plays the trial.

    Raises:
        ConfigurationError: A file cannot be read.
    """
    profiles = None if setting.profiles is None else _digest_of(setting.profiles)
    shared = (mirage.__version__, _versions(), replace(setting, profiles=None), profiles)
    workloads = {path: _digest_of(path) for path in dict.fromkeys(trial.workload for trial in trials)}

    def key(trial: Trial) -> str:
        code = source_digest([Trial.__module__, trial.scheduler.spec.entry.partition(":")[0]])
        told = (shared, workloads[trial.workload], trial.scheduler, code)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:24]

    return {trial: key(trial) for trial in trials}


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Installed versions of the packages that determine the results.

    They provide the kernels, the solution of programs, and the interpolation.
    """
    found = []
    for package in ("numpy", "numba", "scipy"):
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            found.append((package, "absent"))
    return tuple(found)


def _digest_of(path: str) -> str:
    """Digest of a file, or of all files below a folder with their relative names."""
    digest, place = hashlib.sha256(), Path(path)
    try:
        files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
        for file in files:
            told = file.read_bytes()
            digest.update(f"{file.relative_to(place)} {len(told)}\n".encode() + told)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}; check the path") from error
    return digest.hexdigest()
