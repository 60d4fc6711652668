"""Accounts and files of the cluster that ``mirage calibrate --site`` runs on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import cli_context as cluster
from mirage.duration import DAY_S

if TYPE_CHECKING:
    from mirage.calibration.declared_settings import DeclaredSettings
    from mirage.calibration.site.calibration_files import CalibrationFiles
    from mirage.calibration.site.site_accounts import SiteAccounts
    from mirage.slurm.client import SlurmClient
    from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class OwnSite:
    """The known facts about this cluster.

    Attributes:
        name: A readable name.
        jobs: The jobs of all users.
        declared: The configuration of its scheduler.
        facts: The facts for the cluster file.
        place: Location of its files.
        user: The user of this process there.
    """

    name: str
    jobs: JobTable
    declared: DeclaredSettings
    facts: Mapping[str, Any]
    place: CalibrationFiles
    user: str


def own_place(options: Mapping[str, str]) -> CalibrationFiles:
    """Returns where the calibration of the cluster is stored; no folder is created.

    Args:
        options: The options of slurm.conf, keys in lower case.
    """
    import os

    from mirage.agent.paths import CALIBRATIONS, folder_of
    from mirage.calibration.site.calibration_files import CalibrationFiles
    from mirage.slurm.backend import cluster_of

    return CalibrationFiles(folder_of(os.environ) / CALIBRATIONS, cluster_of(options))


@contextmanager
def own_site(weeks: int) -> Iterator[OwnSite]:
    """Reads the accounts of this cluster for one calibration attempt and records its outcome.

    Args:
        weeks: Weeks of accounts to read, back from now.

    Raises:
        ConfigurationError: The cluster cannot be calibrated, or another process is calibrating it.
        SlurmError: A command failed.
    """
    slurm = cluster.client()
    cluster.home()  # creates the folder and warns about its permissions
    place = own_place(slurm.configuration())
    with place.attempting(cluster.clock):
        found = _accounts(slurm, weeks)
        for remark in found.remarks:
            click.echo(f"note: {remark}", err=True)
        facts = {**found.facts(), "made": datetime.fromtimestamp(int(cluster.clock()), UTC)}
        yield OwnSite(f"the accounts of {found.cluster}", found.jobs, found.declared, facts, place, slurm.user)


def _accounts(slurm: SlurmClient, weeks: int) -> SiteAccounts:
    from mirage.calibration.site.site_accounts import SacctHistory, site_accounts
    from mirage.real_time import real_s
    from mirage.report.terminal.progress import progress_bar

    with progress_bar("days of accounts") as progress:
        history = SacctHistory(
            slurm, time.sleep, real_s, lambda done_s, most_s: progress(done_s // DAY_S, most_s // DAY_S)
        )
        return site_accounts(history, int(cluster.clock()), weeks)
