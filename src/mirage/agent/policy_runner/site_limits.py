"""Limits of users from the site's calibration, for policies with a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.errors import MirageError
from mirage.slurm.backend import cluster_of

if TYPE_CHECKING:
    from mirage.sim.cluster import Limit


class SiteLimits:
    """The limits in the cluster file of a site, read again whenever the file changes.

    Args:
        folder: Folder of calibrations; None for no limits.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._read: tuple[Path, int] | None = None
        self._limits: tuple[Limit, ...] = ()

    def of(self, options: Mapping[str, str]) -> tuple[Limit, ...]:
        """The limits of the cluster with these options.

        Empty without a calibration, and with an unreadable one, which ``mirage doctor`` reports.
        """
        if self.folder is None:
            return ()
        file = CalibrationFiles(self.folder, cluster_of(options)).file
        try:
            version = (file, file.stat().st_mtime_ns)
        except OSError:
            self._read, self._limits = None, ()
            return ()
        if version != self._read:
            self._read, self._limits = version, _limits_in(file)
        return self._limits


def _limits_in(file: Path) -> tuple[Limit, ...]:
    from mirage.sim.slurm_conf.cluster_file import read_cluster_file

    try:
        return read_cluster_file(file).cluster.limits
    except MirageError:
        return ()
