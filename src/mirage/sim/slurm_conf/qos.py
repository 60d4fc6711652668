"""The QOS of a cluster, which are in the accounting database, not in slurm.conf."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.job_state import MISSING
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.command_output import read_command_output
from mirage.slurm_words.tres import tres_count, tres_gpus

_RUNNING = (("user", "MaxJobsPU", "MaxTRESPU"), ("account", "MaxJobsPA", "MaxTRESPA"), ("all", "GrpJobs", "GrpTRES"))
"""What a limit counts together, and its columns for jobs, and for nodes and GPUs."""

_AGEING = (("all", "GrpJobsAccrue"), ("account", "MaxJobsAccruePA"), ("user", "MaxJobsAccruePU"))
"""The same for waiting jobs that gain age, in Slurm's order: of several the first decides (measured on 22.05.8)."""


@dataclass(frozen=True, slots=True)
class QosTable:
    """The QOS of a cluster.

    Attributes:
        factors: QOS → priority, any scale.
        preempts: QOS → those with running jobs that it may preempt.
        limits: What their jobs may hold at once.
    """

    factors: dict[str, float]
    preempts: dict[str, tuple[str, ...]]
    limits: tuple[Limit, ...]


def with_qos(cluster: Cluster, path: str | Path) -> Cluster:
    """The cluster with the QOS of ``sacctmgr -P show qos``, and their limits added to its own.

    Raises:
        ConfigurationError: As ``read_qos``.
    """
    declared = read_qos(path)
    limits = (*cluster.limits, *declared.limits)
    return replace(cluster, qos_factors=declared.factors, qos_preempts=declared.preempts, limits=limits)


def read_qos(path: str | Path) -> QosTable:
    """The QOS in a file with the output of ``sacctmgr -P show qos``.

    Raises:
        ConfigurationError: It cannot be read, or as ``qos_table``.
    """
    return qos_table(read_command_output(path, "sacctmgr -P show qos"), str(path))


def qos_table(text: str, path: str) -> QosTable:
    """The QOS of ``sacctmgr -P show qos``: priorities, preemption and limits.

    Limits on what runs at once are read where the columns exist: MaxJobsPU, MaxTRESPU, MaxJobsPA, MaxTRESPA, GrpJobs
    and GrpTRES, of the latter nodes and GPUs; and those on jobs that gain age, MaxJobsAccruePU, MaxJobsAccruePA and
    GrpJobsAccrue. A limit on GPUs of one type limits GPUs of all types: a ``Limit`` has no types.

    Args:
        text: Its output.
        path: The source of the text, for messages.

    Raises:
        ConfigurationError: A row cannot be read, or lacks the columns Name, Priority and Preempt.
    """
    rows = list(csv.DictReader(text.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE))
    lacking = [name for name in ("Name", "Priority", "Preempt") if not rows or name not in rows[0]]
    if lacking:
        raise ConfigurationError(f"{path} is not what `sacctmgr -P show qos` prints: no {', '.join(lacking)}")
    factors = {row["Name"]: _priority(f"{path}: line {number}", row) for number, row in enumerate(rows, 2)}
    preempts = {row["Name"]: tuple(filter(None, row["Preempt"].split(","))) for row in rows}
    limits = [limit for number, row in enumerate(rows, 2) for limit in _limits(f"{path}: line {number}", row)]
    return QosTable(factors, preempts, tuple(limits))


def _limits(place: str, row: dict[str, str | None]) -> list[Limit]:
    """The limits of a QOS on what runs, and on what gains age, at once."""
    found, qos = [], (row["Name"] or "",)
    for per, jobs, tres in _RUNNING:
        running = _count(place, jobs, row.get(jobs) or "")
        nodes, gpus = _of_tres(place, tres, row.get(tres) or "")
        if (running, nodes, gpus) != (None, None, None):
            found.append(Limit(per, running, nodes, gpus, qos=qos))
    for per, column in _AGEING:
        ageing = _count(place, column, row.get(column) or "")
        if ageing is not None:
            found.append(Limit(per, qos=qos, ageing=ageing))
    return found


def _of_tres(place: str, column: str, text: str) -> tuple[int | None, int | None]:
    """Nodes and GPUs in ``cpu=64,gres/gpu=8,node=4``."""
    nodes, gpus = tres_count(text, "node"), tres_gpus(text) if "gres/gpu" in text else MISSING
    if MISSING in (nodes if "node=" in text else 0, gpus if "gres/gpu" in text else 0):
        raise ConfigurationError(
            f"{place}: {column} {shown(text)} has no number of nodes or GPUs; write `sacctmgr -P show qos` to it again"
        )
    return None if nodes == MISSING else nodes, None if gpus == MISSING else gpus


def _count(place: str, column: str, text: str) -> int | None:
    if text and not text.isdecimal():
        raise ConfigurationError(
            f"{place}: {column} {shown(text)} is not a number; write `sacctmgr -P show qos` to it again"
        )
    return int(text) if text else None


def _priority(place: str, row: dict[str, str | None]) -> float:
    """The priority in a complete row; 0 where it is empty."""
    cells = [cell for cell in row.values() if cell is not None]
    if len(cells) < len(row):
        problem = f"{len(cells)} cells of {len(row)}"
    elif not (row["Priority"] or "0").isdecimal():
        problem = f"Priority {shown(row['Priority'])} is not a number"
    else:
        return float(row["Priority"] or 0)
    raise ConfigurationError(f"{place}: {problem}; write `sacctmgr -P show qos` to it again")
