"""The QOS of a cluster, which are in the accounting database, not in slurm.conf."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.sim.cluster import Cluster


def with_qos(cluster: Cluster, path: str | Path) -> Cluster:
    """The cluster with the QOS of ``sacctmgr -P show qos``: priorities and preemption.

    Raises:
        ConfigurationError: The file cannot be read, or lacks the columns Name, Priority and Preempt.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}; write `sacctmgr -P show qos` to it") from error
    rows = list(csv.DictReader(lines, delimiter="|"))
    if not rows or not {"Name", "Priority", "Preempt"} <= rows[0].keys():
        raise ConfigurationError(f"{path} is not what `sacctmgr -P show qos` prints: no Name, Priority and Preempt")
    factors = {row["Name"]: float(row["Priority"] or 0) for row in rows}
    preempts = {row["Name"]: tuple(filter(None, row["Preempt"].split(","))) for row in rows}
    return replace(cluster, qos_factors=factors, qos_preempts=preempts)
