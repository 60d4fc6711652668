"""Declared settings of a cluster: parameters of the scheduler, and QOS with their limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from mirage.errors import ConfigurationError, shown
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.associations import Association, age_limits, read_associations
from mirage.sim.slurm_conf.priority_weights import with_priority_weights
from mirage.sim.slurm_conf.qos import QosTable, read_qos
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings, ignored_weights, read_options
from mirage.trace.table import JobTable

_OF_A_SCHEDULER = ("schedulertype", "schedulerparameters", "prioritytype", "selecttype", "clustername")
"""Every slurm.conf and every answer of a controller contains at least one of these options."""


@dataclass(frozen=True, slots=True)
class DeclaredSettings:
    """Declared settings, which are used unchanged and not inferred.

    Attributes:
        settings: The parameters of the scheduler.
        by: Their source, as text.
        qos: The QOS; None where they are not declared.
        qos_by: Source of the QOS.
        associations: Accounts and their users, with limits on age; empty where they are not declared.
        associations_by: Source of the associations.
    """

    settings: SlurmSettings
    by: str
    qos: QosTable | None = None
    qos_by: str = ""
    associations: tuple[Association, ...] = ()
    associations_by: str = ""

    def age_limits(self, jobs: JobTable) -> tuple[Limit, ...]:
        """Returns the associations' limits on jobs that accrue age, if they apply to these jobs."""
        return age_limits(self.associations, jobs.account.names)


def read_declared_settings(
    slurm_conf: str | None = None,
    settings: str | None = None,
    qos: str | None = None,
    sprio: str | None = None,
    associations: str | None = None,
) -> DeclaredSettings:
    """Reads declared settings from files.

    Args:
        slurm_conf: A ``slurm.conf``, or the output of ``scontrol show config``.
        settings: A name, ``lonestar6`` or ``slurm-default``, where there is no such file.
        qos: The output of ``sacctmgr -P show qos``.
        sprio: The output of ``sprio -w``.
        associations: The output of ``sacctmgr -P show assoc`` with limits on age.

    Raises:
        ConfigurationError: A file cannot be read, or is something else.
    """
    found, by, ignored = SlurmSettings(), "Slurm's defaults", dict[str, float]()
    if slurm_conf is not None:
        options = read_options(slurm_conf)
        _check_scheduler(slurm_conf, options)
        found, by = SlurmSettings.from_options(options, slurm_conf), slurm_conf
        ignored = dict.fromkeys(ignored_weights(options), 0.0)
    elif settings == "lonestar6":
        found, by = SlurmSettings.lonestar6(), settings
    if sprio is not None:
        found, by = with_priority_weights(found, sprio), f"{by}, weights {sprio}"
        found = replace(found, **ignored)  # type: ignore[arg-type]
    accounts = () if associations is None else read_associations(associations)
    return DeclaredSettings(found, by, None if qos is None else read_qos(qos), qos or "", accounts, associations or "")


def _check_scheduler(path: str, options: Collection[str]) -> None:
    if not any(name in options for name in _OF_A_SCHEDULER):
        raise ConfigurationError(
            f"{path} has no settings of a scheduler (SchedulerType, PriorityType or SelectType); name a slurm.conf "
            "or the output of `scontrol show config`"
        )


def check_qos(declared: DeclaredSettings, jobs: JobTable) -> None:
    """Refuses QOS that no job of the trace has: their limits would have no effect.

    Raises:
        ConfigurationError: QOS are declared, and no job has one of them.
    """
    if declared.qos is None:
        return
    there = [jobs.qos.names[code] for code in np.unique(jobs.qos.codes[jobs.qos.codes >= 0])]
    if not set(there) & set(declared.qos.factors):
        of_jobs = (
            f"its jobs have {', '.join(map(shown, there[:5]))}" if there else "it does not contain the QOS of jobs"
        )
        raise ConfigurationError(
            f"{declared.qos_by} lists the QOS {', '.join(map(shown, declared.qos.factors))}, but no job of the trace "
            f"has one: {of_jobs}; name a trace with the column QOS, or leave --qos out"
        )


def check_associations(declared: DeclaredSettings, jobs: JobTable) -> None:
    """Refuses associations with accounts that no job of the trace has: they would do nothing.

    Raises:
        ConfigurationError: Accounts are declared, and no job has one of them.
    """
    known = {one.account for one in declared.associations}
    if declared.associations and known.isdisjoint(jobs.account.names):
        there = jobs.account.names[:5]
        of_jobs = (
            f"its jobs have {', '.join(map(shown, there))}" if there else "it does not contain the accounts of jobs"
        )
        raise ConfigurationError(
            f"{declared.associations_by} lists the accounts {', '.join(map(shown, sorted(known)[:5]))}, but no job of "
            f"the trace has one: {of_jobs}; name a trace with the column Account, or leave --associations out"
        )
