"""Journal of a comparison: stores each outcome by its trial's key, to resume from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mirage
from mirage.errors import ConfigurationError
from mirage.json_journal import JsonJournal
from mirage.schedule.compare.gpu_comparison_row import GpuComparisonRow
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, GpuTrial
from mirage.source_digest import source_digest

FILE = "schedule-trials.jsonl"


class GpuJournal:
    """Outcomes in a file of JSON lines, each found by the key of its trial.

    The trial of an incomplete line is played again.

    Args:
        folder: Folder of the file; None to store nothing.

    Raises:
        ConfigurationError: The folder cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lines = JsonJournal(folder, FILE)
        self._stored: dict[str, GpuOutcome] = {}
        for line in self._lines:
            self._take(line)

    def outcome(self, key: str, workload: str) -> GpuOutcome | None:
        """The outcome of a trial, under the present name of its workload; None if unknown."""
        found = self._stored.get(key)
        return None if found is None else replace(found, row=replace(found.row, workload=workload))

    def add(self, key: str, outcome: GpuOutcome) -> None:
        """Store an outcome; it is on disk when this returns."""
        self._stored[key] = outcome
        self._lines.add({"key": key, **asdict(outcome)})

    def _take(self, record: dict[str, Any]) -> None:
        try:
            left_out = tuple((str(reason), int(count)) for reason, count in record["left_out"])
            self._stored[record["key"]] = GpuOutcome(
                GpuComparisonRow(**record["row"]), tuple(record["jct_s"]), left_out
            )
        except (ValueError, KeyError, TypeError):
            return


def keys_of(trials: Sequence[GpuTrial], setting: GpuSetting) -> dict[GpuTrial, str]:
    """One digest per trial of all that determines its outcome.

    It covers the files, the settings, and the code that plays the trial.

    Raises:
        ConfigurationError: A file cannot be read.
    """
    profiles = None if setting.profiles is None else _digest_of(setting.profiles)
    shared = (mirage.__version__, _versions(), replace(setting, profiles=None), profiles)
    workloads = {path: _digest_of(path) for path in dict.fromkeys(trial.workload for trial in trials)}

    def key(trial: GpuTrial) -> str:
        code = source_digest([GpuTrial.__module__, trial.scheduler.spec.entry.partition(":")[0]])
        content = (shared, workloads[trial.workload], trial.scheduler, code)
        return hashlib.sha256(repr(content).encode()).hexdigest()[:24]

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
    digest, root = hashlib.sha256(), Path(path)
    try:
        files = sorted(file for file in root.rglob("*") if file.is_file()) if root.is_dir() else [root]
        for file in files:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(root)} {len(content)}\n".encode() + content)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}; check the path") from error
    return digest.hexdigest()
