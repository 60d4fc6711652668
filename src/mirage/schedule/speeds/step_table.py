"""The table of step times: measured, interpolated, and extrapolated placements.

A measured placement is interpolated over local batches. Among several placements of one size, the one with full servers
counts if it uses as few servers as possible, else their mean. Between placements, times are linear in servers, GPUs and
local batch, over a Delaunay triangulation of means, as in the simulators of Pollux and Sia. Outside of all measurements
the times of the nearest placement count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.schedule.speeds.profile_files import StepTimes


@dataclass(frozen=True, slots=True)
class StepRow:
    """Step times of a placement by local batch.

    Attributes:
        local_batch: Local batches, ascending.
        times_s: Seconds of a step and of its exchange, shape (n, 2).
        max_local: Maximum local batch.
    """

    local_batch: Floats
    times_s: Floats
    max_local: int


PlacementSize = tuple[int, int]
"""Servers and GPUs."""


def step_table(
    placements: StepTimes, scalability: StepTimes, servers: int, gpus: int, gpus_per_server: int
) -> dict[PlacementSize, StepRow]:
    """Step times of one model on one GPU type, up to a number of servers and GPUs.

    A placement that does not fit into its servers has the times of the nearest placement that does.
    """
    measured = _measured_rows(placements)
    wanted = [(s, g) for s in range(1, servers + 1) for g in range(s, gpus + 1)]
    most = int(scalability.servers.max()), int(scalability.gpus.max())
    inside = [(s, g) for s, g in wanted if g <= s * gpus_per_server and s <= most[0] and g <= most[1]]
    between = _between(measured, scalability, [size for size in inside if size not in measured])
    measured |= _full_first(placements, gpus_per_server)
    known = measured | between
    at = np.log([[float(s), float(g)] for s, g in known])
    rows = list(known.values())
    for s, g in wanted:
        if (s, g) not in known:
            distance = np.abs(at - np.log([s, g])).sum(axis=1)
            measured[s, g] = rows[int(np.argmin(distance))]
    return {size: measured[size] if size in measured else between[size] for size in wanted}


def _measured_rows(placements: StepTimes) -> dict[PlacementSize, StepRow]:
    """A row for every size with measured placements: the mean over these placements."""
    of_size: dict[PlacementSize, dict[str, list[int]]] = {}
    for k, pattern in enumerate(placements.placement):
        size = (int(placements.servers[k]), int(placements.gpus[k]))
        of_size.setdefault(size, {}).setdefault(pattern, []).append(k)
    return {size: _mean_row(placements, list(patterns.values())) for size, patterns in of_size.items()}


def _full_first(placements: StepTimes, gpus_per_server: int) -> dict[PlacementSize, StepRow]:
    """Rows of measured placements on as few servers as possible, all but one of them full.

    This is how schedulers place workers.
    """
    found: dict[PlacementSize, list[int]] = {}
    for k, pattern in enumerate(placements.placement):
        servers, gpus = int(placements.servers[k]), int(placements.gpus[k])
        whole, rest = divmod(gpus, gpus_per_server)
        if pattern == (str(rest) if rest else "") + str(gpus_per_server) * whole:  # in its smallest rotation
            found.setdefault((servers, gpus), []).append(k)
    return {size: _mean_row(placements, [rows]) for size, rows in found.items()}


def _mean_row(placements: StepTimes, patterns: list[list[int]]) -> StepRow:
    """The mean over patterns, at all local batches that are in the range of every pattern."""
    tables = []
    for rows in patterns:
        order = np.array(rows)[np.argsort(placements.local_batch[rows], kind="stable")]
        times = np.column_stack([placements.step_s[order], placements.sync_s[order]])
        tables.append((placements.local_batch[order], times))
    low = max(local[0] for local, _ in tables)
    high = min(local[-1] for local, _ in tables)
    knots = np.unique(np.concatenate([local for local, _ in tables]))
    knots = knots[(knots >= low) & (knots <= high)]
    each = [np.column_stack([np.interp(knots, local, times[:, c]) for c in range(2)]) for local, times in tables]
    return StepRow(knots, np.mean(each, axis=0), int(high))


def _between(
    measured: dict[PlacementSize, StepRow], scalability: StepTimes, wanted: list[PlacementSize]
) -> dict[PlacementSize, StepRow]:
    """Rows between measured placements; only those with interpolated times."""
    points = [(*size, local) for size, row in measured.items() for local in row.local_batch]
    times = [pair for row in measured.values() for pair in row.times_s]
    sizes = np.column_stack([scalability.servers, scalability.gpus, scalability.local_batch])
    points_of_all = np.concatenate([np.array(points, dtype=np.float64), sizes])
    times_of_all = np.concatenate([np.array(times), np.column_stack([scalability.step_s, scalability.sync_s])])
    if not wanted or (np.ptp(points_of_all, axis=0) == 0).any():
        return {}
    all_local = np.unique(points_of_all[:, 2])
    requested = np.array([(s, g, k) for s, g in wanted for k in all_local if k <= _max_local(scalability, s, g)])
    if not len(requested):
        return {}
    values = _interpolated(points_of_all, times_of_all, requested)
    known = np.isfinite(values).all(axis=1)
    found: dict[PlacementSize, StepRow] = {}
    for s, g in wanted:
        here = known & (requested[:, 0] == s) & (requested[:, 1] == g)
        if here.any():
            found[s, g] = StepRow(requested[here, 2], values[here], int(requested[here, 2].max()))
    return found


def _interpolated(points: Floats, values: Floats, requested: Floats) -> Floats:
    """Values at the requested points; NaN outside of the known ones.

    This solves thousands of tiny systems: the threads of a linear algebra library would only wait for each other, on a
    busy machine for a minute.
    """
    try:
        from scipy.interpolate import LinearNDInterpolator
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f'measured profiles need {error.name}, which is not installed; run: pip install "mirage-hpc[schedule]"'
        ) from error
    with threadpool_limits(limits=1):
        found: Floats = LinearNDInterpolator(points, values)(requested)
    return found


def _max_local(scalability: StepTimes, servers: int, gpus: int) -> float:
    larger: Ints = np.flatnonzero((scalability.servers >= servers) & (scalability.gpus >= gpus))
    return float(scalability.local_batch[larger].max()) if len(larger) else -1.0
