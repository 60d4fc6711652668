"""The QOS of a cluster, which are in the accounting database, not in slurm.conf."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.sim.cluster import Cluster


def with_qos(cluster: Cluster, path: str | Path) -> Cluster:
    """The cluster with the QOS of ``sacctmgr -P show qos``: priorities and preemption.

    Raises:
        ConfigurationError: The file or a row of it cannot be read, or lacks the columns Name, Priority and Preempt.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}; write `sacctmgr -P show qos` to it") from error
    rows = list(csv.DictReader(lines, delimiter="|"))
    if not rows or not {"Name", "Priority", "Preempt"} <= rows[0].keys():
        raise ConfigurationError(f"{path} is not what `sacctmgr -P show qos` prints: no Name, Priority and Preempt")
    factors = {row["Name"]: _priority(f"{path}: line {number}", row) for number, row in enumerate(rows, 2)}
    preempts = {row["Name"]: tuple(filter(None, row["Preempt"].split(","))) for row in rows}
    return replace(cluster, qos_factors=factors, qos_preempts=preempts)


def _priority(place: str, row: dict[str, str | None]) -> float:
    """The priority in a whole row; 0 where it is empty."""
    cells = [cell for cell in row.values() if cell is not None]
    if len(cells) < len(row):
        problem = f"{len(cells)} cells of {len(row)}"
    elif not (row["Priority"] or "0").isdecimal():
        problem = f"Priority {shown(row['Priority'])} is no number"
    else:
        return float(row["Priority"] or 0)
    raise ConfigurationError(f"{place}: {problem}; write `sacctmgr -P show qos` to it again")
