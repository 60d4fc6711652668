"""What is known about a site, for policies: limits of users, and the choices of ``auto``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.calibration.site.stored_choices import read_choices
from mirage.errors import MirageError
from mirage.policy.policy_choice import PolicyChoice
from mirage.slurm.backend import cluster_of

if TYPE_CHECKING:
    from mirage.sim.cluster import Limit


@dataclass(frozen=True, slots=True)
class KnownSite:
    """Facts about a site that policies use.

    Attributes:
        limits: Limits of users on running jobs.
        choices: The policies that an evaluation chose.
    """

    limits: tuple[Limit, ...] = ()
    choices: tuple[PolicyChoice, ...] = ()


class SiteKnowledge:
    """The facts in a site's calibration, read again whenever its files change.

    Args:
        folder: Folder of calibrations; None for none.
        known: The facts without a folder.
    """

    def __init__(self, folder: Path | None, known: KnownSite = KnownSite()) -> None:
        self.folder = folder
        self._version: tuple[tuple[Path, int], ...] = ()
        self._known = known

    def of(self, options: Mapping[str, str]) -> KnownSite:
        """The facts about the cluster with these options.

        None without a calibration, and from an unreadable file, which ``mirage doctor`` reports.
        """
        if self.folder is None:
            return self._known
        files = CalibrationFiles(self.folder, cluster_of(options))
        version = tuple(_version(path) for path in (files.file, files.choices))
        if version != self._version:
            self._version, self._known = version, KnownSite(_limits_in(files.file), _choices_in(files))
        return self._known


def _version(path: Path) -> tuple[Path, int]:
    try:
        return path, path.stat().st_mtime_ns
    except OSError:
        return path, 0


def _limits_in(file: Path) -> tuple[Limit, ...]:
    if not file.exists():
        return ()
    from mirage.sim.slurm_conf.cluster_file import read_cluster_file

    try:
        return read_cluster_file(file).cluster.limits
    except MirageError:
        return ()


def _choices_in(files: CalibrationFiles) -> tuple[PolicyChoice, ...]:
    try:
        return read_choices(files)
    except MirageError:
        return ()
