"""The cluster that a command runs on, as ``mirage calibrate --site`` looks at it, and what it keeps of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli import context as cluster
from mirage.duration import DAY_S

if TYPE_CHECKING:
    from mirage.calibration.site.accounts import SiteAccounts
    from mirage.calibration.site.place import SitePlace
    from mirage.calibration.told import Told
    from mirage.slurm.client import SlurmClient
    from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class OwnSite:
    """What is known of this cluster.

    Attributes:
        name: For people.
        jobs: Everybody's.
        told: Its scheduler.
        facts: For the cluster file.
        file: Where that is kept.
    """

    name: str
    jobs: JobTable
    told: Told
    facts: Mapping[str, Any]
    file: Path


def own_place(options: Mapping[str, str]) -> SitePlace:
    """Where the calibration of the cluster with these options is kept; no folder is made.

    Args:
        options: Of slurm.conf, keys in lower case.
    """
    import os

    from mirage.agent.paths import CALIBRATIONS, folder_of
    from mirage.calibration.site.place import SitePlace
    from mirage.slurm.backend import cluster_of

    return SitePlace(folder_of(os.environ) / CALIBRATIONS, cluster_of(options))


@contextmanager
def own_site(weeks: int) -> Iterator[OwnSite]:
    """One attempt to calibrate this cluster: its accounts, and a note of what became of it.

    Args:
        weeks: How far back accounts are read.

    Raises:
        ConfigurationError: It cannot be calibrated, or another process is at it.
        SlurmError: A command failed.
    """
    slurm = cluster.client()
    cluster.home()  # it is made, and what is wrong with it is told
    place = own_place(slurm.configuration())
    with place.attempting(cluster.clock):
        found = _accounts(slurm, weeks)
        for remark in found.remarks:
            click.echo(f"note: {remark}", err=True)
        facts = {**found.facts(), "made": datetime.fromtimestamp(int(cluster.clock()), UTC)}
        yield OwnSite(f"the accounts of {found.cluster}", found.jobs, found.told, facts, place.file)


def _accounts(slurm: SlurmClient, weeks: int) -> SiteAccounts:
    from mirage.calibration.site.accounts import SacctHistory, site_accounts
    from mirage.patience import real_s
    from mirage.report.terminal.evaluation import progress_bar

    with progress_bar("days of accounts") as progress:
        history = SacctHistory(
            slurm, time.sleep, real_s, lambda done_s, most_s: progress(done_s // DAY_S, most_s // DAY_S)
        )
        return site_accounts(history, int(cluster.clock()), weeks)
