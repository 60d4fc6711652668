"""What the operators of a cluster told of it: parameters of the scheduler, and QOS with their limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from mirage.errors import ConfigurationError, shown
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.associations import Association, age_limits, read_associations
from mirage.sim.slurm_conf.priority_weights import with_priority_weights
from mirage.sim.slurm_conf.qos import QosTable, read_qos
from mirage.sim.slurm_conf.settings import SlurmSettings, ignored_weights, read_options
from mirage.trace.table import JobTable

_OF_A_SCHEDULER = ("schedulertype", "schedulerparameters", "prioritytype", "selecttype", "clustername")
"""One of these options stands in every slurm.conf, and in every answer of a controller."""


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody said, which is taken as it is and not inferred.

    Attributes:
        settings: The parameters of the scheduler.
        by: Where they are from, in words.
        qos: The QOS; None where nothing is said of them.
        qos_by: Where these are from.
        associations: Accounts and their users, with limits on age; empty where nothing is said of them.
        associations_by: Where these are from.
    """

    settings: SlurmSettings
    by: str
    qos: QosTable | None = None
    qos_by: str = ""
    associations: tuple[Association, ...] = ()
    associations_by: str = ""

    def age_limits(self, jobs: JobTable) -> tuple[Limit, ...]:
        """Limits of associations on how many jobs gather age, as far as they count jobs of these."""
        return age_limits(self.associations, jobs.account.names)


def read_told(
    slurm_conf: str | None = None,
    settings: str | None = None,
    qos: str | None = None,
    sprio: str | None = None,
    associations: str | None = None,
) -> Told:
    """What files tell.

    Args:
        slurm_conf: A ``slurm.conf``, or what ``scontrol show config`` prints.
        settings: A name, ``lonestar6`` or ``slurm-default``, where there is no such file.
        qos: What ``sacctmgr -P show qos`` prints.
        sprio: What ``sprio -w`` prints.
        associations: What ``sacctmgr -P show assoc`` prints of limits on age.

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
    return Told(found, by, None if qos is None else read_qos(qos), qos or "", accounts, associations or "")


def _check_scheduler(path: str, options: Collection[str]) -> None:
    if not any(name in options for name in _OF_A_SCHEDULER):
        raise ConfigurationError(
            f"{path} tells nothing of a scheduler: it has no SchedulerType, PriorityType or SelectType; name a "
            "slurm.conf or what `scontrol show config` printed"
        )


def check_qos(told: Told, jobs: JobTable) -> None:
    """Refusal of QOS that no job of the trace has: their limits would stop nobody.

    Raises:
        ConfigurationError: The QOS are told, and no job has one of them.
    """
    if told.qos is None:
        return
    there = [jobs.qos.names[code] for code in np.unique(jobs.qos.codes[jobs.qos.codes >= 0])]
    if not set(there) & set(told.qos.factors):
        of_jobs = f"its jobs have {', '.join(map(shown, there[:5]))}" if there else "it does not tell the QOS of jobs"
        raise ConfigurationError(
            f"{told.qos_by} tells of the QOS {', '.join(map(shown, told.qos.factors))}, and no job of the trace has "
            f"any: {of_jobs}; name a trace with the column QOS, or leave --qos out"
        )


def check_associations(told: Told, jobs: JobTable) -> None:
    """Refusal of associations whose accounts no job of the trace has: their limits would stop nobody.

    Raises:
        ConfigurationError: Accounts are told, and no job has one of them.
    """
    known = {one.account for one in told.associations}
    if told.associations and known.isdisjoint(jobs.account.names):
        there = jobs.account.names[:5]
        of_jobs = f"its jobs have {', '.join(map(shown, there))}" if there else "it does not tell the accounts of jobs"
        raise ConfigurationError(
            f"{told.associations_by} tells of the accounts {', '.join(map(shown, sorted(known)[:5]))}, and no job of "
            f"the trace has any: {of_jobs}; name a trace with the column Account, or leave --associations out"
        )
