"""Measured profiles: the speeds of all models of a folder on the GPU types of a cluster.

A measured placement is interpolated over local batches. Among several placements of one size, the one with full servers
counts if it uses as few servers as possible, else their mean. Between placements, times are linear in servers, GPUs and
local batch, over a Delaunay triangulation of means, as in the simulators of Pollux and Sia. Outside of all measurements
the times of the nearest placement count.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds.profile_files import (
    GradientNoise,
    ModelFacts,
    StepTimes,
    gpu_types_of,
    models_in,
    read_facts,
    read_noise,
    read_placements,
    read_scalability,
)
from mirage.schedule.speeds.speed_arrays import NO_TABLE, Speeds, linear_speeds

MOST_SERVERS, MOST_GPUS = 16, 64
"""Larger placements count as these, as they were not measured."""

NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Profiles:
    """The measured models, and their speeds on one cluster.

    Attributes:
        models: Names of the models, in the order of the arrays.
        speeds: Their speeds.
    """

    models: tuple[str, ...]
    speeds: Speeds


def no_profiles(cluster: GpuCluster) -> Profiles:
    """Profiles without measured models: all jobs follow the linear law."""
    return Profiles((), linear_speeds(_type_speed(cluster)))


def read_profiles(folder: str | os.PathLike[str], cluster: GpuCluster) -> Profiles:
    """The profiles of a folder with a sub-folder for every model.

    Raises:
        ConfigurationError: The folder has no profiles, none for the cluster's GPU types, or an unreadable file.
    """
    root = Path(folder)
    names = models_in(root)
    if not names:
        raise ConfigurationError(f"{root}: no profiles (MODEL/validation-BATCH.csv) in it; give a folder that has some")
    facts = read_facts(root)
    measured = {name: set(gpu_types_of(root / name)) for name in names}
    for name, types in measured.items():
        if not types & set(cluster.gpu_types):
            raise ConfigurationError(
                f"{root / name}: measured on {', '.join(sorted(types)) or 'nothing'}; the cluster has "
                f"{', '.join(cluster.gpu_types)}: name the GPU types of the cluster as in the profiles"
            )
    models = [_Model.read(root / name, facts.get(name, ModelFacts()), cluster) for name in names]
    return Profiles(names, _packed(models, _type_speed(cluster)))


def types_in_profiles(folder: str | os.PathLike[str]) -> set[str]:
    """The GPU types on which any model of a folder was measured."""
    root = Path(folder)
    return {gpu_type for name in models_in(root) for gpu_type in gpu_types_of(root / name)}


def _type_speed(cluster: GpuCluster) -> Floats:
    return np.array(list(cluster.type_speeds().values()), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _OnType:
    """One model on one GPU type."""

    placements: StepTimes
    rows: dict[tuple[int, int], StepRow]
    max_local: int

    def one_gpu_rate(self) -> float:
        """Samples per second on one GPU, with the largest local batch and the longest step."""
        alone = self.placements.gpus == 1
        if not alone.any():
            return 0.0
        return float(self.placements.local_batch[alone].max() / self.placements.step_s[alone].max())

    def memory_max_local(self, gpus: int) -> int:
        """The largest local batch measured with this number of GPUs."""
        same = self.placements.gpus == gpus
        return int(self.placements.local_batch[same].max()) if same.any() else NO_LIMIT


@dataclass(frozen=True, slots=True)
class _Model:
    """One model on the GPU types of a cluster; None for types without measurements."""

    facts: ModelFacts
    noise: GradientNoise
    on_types: tuple[_OnType | None, ...]
    servers: int
    gpus: int

    @classmethod
    def read(cls, folder: Path, facts: ModelFacts, cluster: GpuCluster) -> _Model:
        types = np.bincount(cluster.gpu_type_of), np.bincount(cluster.gpu_type_of, cluster.gpus_of)
        servers, gpus = min(int(types[0].max()), MOST_SERVERS), min(int(types[1].max()), MOST_GPUS)
        measured = gpu_types_of(folder)
        on_types: list[_OnType | None] = []
        for t, gpu_type in enumerate(cluster.gpu_types):
            per_server = int(cluster.gpus_of[cluster.gpu_type_of == t].max())
            if gpu_type not in measured:
                on_types.append(None)
                continue
            placements, scalability = read_placements(folder, gpu_type), read_scalability(folder, gpu_type)
            most = facts.max_local.get(gpu_type, int(placements.local_batch.max()))
            on_types.append(_OnType(placements, step_table(placements, scalability, servers, gpus, per_server), most))
        return cls(facts, read_noise(folder, facts.epochs), tuple(on_types), servers, gpus)


def _packed(models: list[_Model], type_speed: Floats) -> Speeds:
    """All models in one set of arrays."""
    rows: list[StepRow] = []
    shape = len(models), len(type_speed)
    at = np.full((*shape, models[0].servers, models[0].gpus), NO_TABLE)
    memory = np.full((*shape, models[0].gpus), NO_LIMIT)
    min_local, max_local = np.ones(shape, np.int64), np.zeros(shape, np.int64)
    rate = np.zeros(shape)
    for m, model in enumerate(models):
        for t, on_type in enumerate(model.on_types):
            if on_type is None:
                continue
            for (servers, gpus), row in on_type.rows.items():
                at[m, t, servers - 1, gpus - 1] = len(rows)
                rows.append(row)
            memory[m, t] = [on_type.memory_max_local(gpus) for gpus in range(1, model.gpus + 1)]
            min_local[m, t] = int(on_type.placements.local_batch.min())
            max_local[m, t] = on_type.max_local
            rate[m, t] = on_type.one_gpu_rate()
    width = max(len(row.local_batch) for row in rows)
    return Speeds(
        type_speed=type_speed,
        rows=at,
        knots=np.array([len(row.local_batch) for row in rows]),
        local_batch=np.array([_padded(row.local_batch, width) for row in rows]),
        step_s=np.array([_padded(row.times_s[:, 0], width) for row in rows]),
        sync_s=np.array([_padded(row.times_s[:, 1], width) for row in rows]),
        row_max_local=np.array([row.max_local for row in rows]),
        memory_max_local=memory,
        min_local=min_local,
        max_local=max_local,
        one_gpu_rate=rate,
        init_batch=np.array([model.noise.batch[0] for model in models]),
        max_batch=np.array([model.noise.batch[-1] for model in models]),
        slowdown=np.array([model.facts.slowdown for model in models], dtype=np.float64),
        restart_s=np.array([model.facts.restart_s for model in models], dtype=np.float64),
        **_noise_arrays([model.noise for model in models]),
    )


def _noise_arrays(noise: list[GradientNoise]) -> dict[str, Any]:
    """Epochs and gradient noise of all models.

    An epoch ends at the smallest progress at which any of the measured batches ended it.
    """
    epochs = max(of.progress.shape[1] for of in noise)
    batches = max(len(of.batch) for of in noise)
    end = np.full((len(noise), epochs), np.inf)
    sqr, var = np.ones((len(noise), batches, epochs)), np.zeros((len(noise), batches, epochs))
    for m, of in enumerate(noise):
        n, e = of.progress.shape
        end[m, :e] = of.progress.min(axis=0)
        sqr[m, :n, :e], var[m, :n, :e] = of.grad_sqr, of.grad_var
    return {
        "epochs": np.array([of.progress.shape[1] for of in noise]),
        "epoch_end": end,
        "noise_knots": np.array([len(of.batch) for of in noise]),
        "noise_batch": np.array([_padded(of.batch, batches) for of in noise]),
        "grad_sqr": sqr,
        "grad_var": var,
    }


def _padded(values: Floats | Ints, width: int) -> Floats:
    return np.concatenate([values, np.full(width - len(values), np.inf)])


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
    wanted = [(s, g) for s in range(1, servers + 1) for g in range(s, gpus + 1)]
    return _step_rows(placements, scalability, wanted, gpus_per_server)


def _step_rows(
    placements: StepTimes, scalability: StepTimes, wanted: list[PlacementSize], gpus_per_server: int
) -> dict[PlacementSize, StepRow]:
    """Rows of ``step_table`` for some sizes, of which the last is the largest."""
    measured = _measured_rows(placements)
    most = min(wanted[-1][0], int(scalability.servers.max())), min(wanted[-1][1], int(scalability.gpus.max()))
    inside = [(s, g) for s in range(1, most[0] + 1) for g in range(s, min(most[1], s * gpus_per_server) + 1)]
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


class Origin(StrEnum):
    """Where a step time comes from."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"


def step_row(placements: StepTimes, scalability: StepTimes, servers: int, gpus: int) -> tuple[StepRow, Origin]:
    """The row of ``step_table`` for one size, and where its times come from.

    The servers have as many GPUs as the largest that was measured. The row is ``MEASURED`` if a placement of this size
    was; a time between its local batches is still interpolated.
    """
    size, per_server = (servers, gpus), gpus_per_server(placements)
    row = _step_rows(placements, scalability, [size], per_server)[size]
    measured = _measured_rows(placements)
    if size in measured:
        return row, Origin.MEASURED
    fits = gpus <= servers * per_server and servers <= scalability.servers.max() and gpus <= scalability.gpus.max()
    between = _between(measured, scalability, [size]) if fits else {}
    return row, Origin.INTERPOLATED if between else Origin.EXTRAPOLATED


def gpus_per_server(placements: StepTimes) -> int:
    """The largest number of GPUs on one server in any measured placement."""
    return max(int(digit) for pattern in placements.placement for digit in pattern)


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
    points_of_all = np.concatenate([np.array(points), sizes])
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
            f"measured profiles need {error.name}, which is not installed; run: {install('schedule')}"
        ) from error
    with threadpool_limits(limits=1):
        found: Floats = LinearNDInterpolator(points, values)(requested)
    return found


def _max_local(scalability: StepTimes, servers: int, gpus: int) -> float:
    larger: Ints = np.flatnonzero((scalability.servers >= servers) & (scalability.gpus >= gpus))
    return float(scalability.local_batch[larger].max()) if len(larger) else -1.0
