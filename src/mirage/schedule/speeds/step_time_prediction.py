"""Step times predicted from four measurements and from tables of other GPU types.

After PickyMan (IPCCC 2022): four profiles of a model suffice for its other placements (A). The method is our own (H):
a geometric mean of three predictions, all fitted to the four measurements:

1. *Law* (a quarter): a + b·local batch + c·[several GPUs] + d·(servers − 1), with a, b, c, d ≥ 0, by relative errors.
2. *Tables of other types* (a quarter): computation times one factor, plus the exchange of gradients in one server times
   a second, or across servers times a third. Factors are drawn towards equal ones. Tables count by how well they fit.
3. *Ratios to these tables* (a half), as those of other models let expect (``step_time_ratios``). Tables count by the
   precision of the prediction.

Which placements are measured is part of the prediction: those four, out of random ones, after which the predictions by
ratios are most precise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install
from mirage.schedule.speeds.profile_files import StepTimes, gpu_types_of, models_in, read_placements
from mirage.schedule.speeds.step_time_ratios import KnownRatios, Pair, ScaledTable

PROFILES = 4
"""Number of measurements."""

TOLERANCE = 0.1
"""A prediction is good if its relative error is at most this."""

CANDIDATES = 200
"""Sets of placements out of which the measured one is chosen."""

_TOWARDS_EQUAL = 0.03
"""Weight of the distance of the factors of a table from a common one."""

_LEAST_RESIDUAL = 0.03
"""Residuals below this count as equal when tables are weighed."""

_ACROSS = 3.0
"""Distance between a placement on one server and one on several, in logarithms of sizes."""


@dataclass(frozen=True, slots=True)
class TablePrediction:
    """The prediction of one table.

    Attributes:
        model: Name of the model.
        gpu_type: The GPU type.
        measured: Placement and local batch of each measurement.
        rows: Number of the other rows.
        within: Share of these whose prediction is within ``TOLERANCE``.
        law_within: The same of the law alone.
        median_error: Median relative error of these rows.
    """

    model: str
    gpu_type: str
    measured: tuple[tuple[str, float], ...]
    rows: int
    within: float
    law_within: float
    median_error: float


def law_parts(table: StepTimes) -> Floats:
    """The terms of the law for each row, shape (rows, 4)."""
    several, servers = table.gpus > 1, table.servers - 1
    parts: Floats = np.stack([np.ones(len(several)), table.local_batch, several, servers], axis=1).astype(np.float64)
    return parts


def source_parts(source: StepTimes, target: StepTimes) -> Floats:
    """The step times of a table at the rows of another, in three parts, shape (rows, 3).

    The parts are the step without its exchange, the exchange in one server, and the exchange across servers. A
    placement that the source lacks is replaced by the nearest size, and local batches are interpolated. Step times of
    the target are not used.
    """
    exchange = np.clip(source.sync_s, 0.0, source.step_s)
    batches = np.unique(source.local_batch)
    alone = np.array([np.median((source.step_s - exchange)[source.local_batch == batch]) for batch in batches])
    step = np.interp(target.local_batch, batches, alone)
    if len(batches) > 1:
        last = max(len(batches) - 3, 0)
        slope = max((alone[-1] - alone[last]) / (batches[-1] - batches[last]), 0.0)
        step = step + slope * np.maximum(target.local_batch - batches[-1], 0.0)
    shared = np.zeros(len(step))
    places = list(zip(target.placement, target.servers.tolist(), target.gpus.tolist()))
    for place in set(places):
        here = np.array([one == place for one in places])
        rows = _rows_like(source, *place)
        known = np.unique(source.local_batch[rows])
        times = [np.median(exchange[rows & (source.local_batch == batch)]) for batch in known]
        shared[here] = np.interp(target.local_batch[here], known, times)
    across = target.servers > 1
    return np.stack([step, np.where(across, 0.0, shared), np.where(across, shared, 0.0)], axis=1)


def _rows_like(
    source: StepTimes, placement: str, servers: int, gpus: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    rows = np.array([one == placement for one in source.placement])
    if rows.any():
        return rows
    far = np.abs(np.log(source.gpus / gpus)) + np.abs(np.log(source.servers / servers))
    far = far + _ACROSS * ((source.servers > 1) != (servers > 1))
    nearest = int(np.argmin(far))
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (source.servers == source.servers[nearest]) & (
        source.gpus == source.gpus[nearest]
    )
    return found


def predicted_s(table: StepTimes, sources: Sequence[ScaledTable], measured: Sequence[int]) -> tuple[Floats, Floats]:
    """Predicted step times of all rows of a table, and those of the law alone; shapes (rows,).

    Args:
        table: The table; only the measured step times are used.
        sources: The tables of other types.
        measured: The measured rows.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    try:
        from scipy.optimize import nnls
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"predictions of step times need scipy: {install('schedule')}") from error
    rows, step_s = list(measured), table.step_s[list(measured)]
    parts = law_parts(table)
    law = parts @ nnls(parts[rows] / step_s[:, None], np.ones(len(rows)))[0]
    logs, weights, by_ratio, precisions = [], [], [], []
    for scaled in sources:
        source = scaled.parts
        relative = source[rows] / step_s[:, None]
        total = relative.sum(axis=1)
        common = float(total.sum() / (total @ total))
        pull = np.sqrt(_TOWARDS_EQUAL)
        with_pull = np.vstack([relative, pull * np.eye(source.shape[1]) / common])
        factors = nnls(with_pull, np.concatenate([np.ones(len(rows)), np.full(source.shape[1], pull)]))[0]
        found = np.maximum(source @ factors, 1e-9)
        residual = float(np.mean((found[rows] / step_s - 1.0) ** 2))
        logs.append(np.log(found))
        weights.append(1.0 / (residual + _LEAST_RESIDUAL**2))
        expected, variances = scaled.predicted(rows, step_s)
        by_ratio.append(expected)
        precisions.append(1.0 / variances)
    if not logs:
        return law, law
    by_factors = np.average(logs, axis=0, weights=weights)
    ratios = np.average(by_ratio, axis=0, weights=precisions)
    return np.exp((by_factors + np.log(np.maximum(law, 1e-9))) / 4 + ratios / 2), law


def share_within(predictions: Floats, table: StepTimes, measured: Sequence[int]) -> float:
    """Share of the predictions of other rows that are within ``TOLERANCE``."""
    held_out = np.setdiff1d(np.arange(len(table.step_s)), measured)
    errors = np.abs(predictions[held_out] / table.step_s[held_out] - 1.0)
    return float((errors <= TOLERANCE).mean())


def choose_measured(
    table: StepTimes, sources: Sequence[ScaledTable], candidates: int = CANDIDATES, seed: int = 0
) -> list[int]:
    """The rows of a table to measure; its step times are not used.

    Every candidate has a row on one GPU, one on several GPUs of a server, one on several servers, and one more.

    Args:
        table: The table.
        sources: The tables of other types; without them, the first candidate is chosen.
        candidates: Number of random candidates.
        seed: Their seed.

    Raises:
        ConfigurationError: The table has no such rows, or fewer than four.
    """
    one = np.flatnonzero(table.gpus == 1)
    several = np.flatnonzero((table.servers == 1) & (table.gpus > 1))
    across = np.flatnonzero(table.servers > 1)
    if not (len(one) and len(several) and len(across)) or len(one) + len(several) + len(across) < PROFILES:
        raise ConfigurationError(
            "a table needs four rows: on one GPU, on several GPUs of a server, on several servers, and one more"
        )
    random = np.random.default_rng(seed)
    least, chosen = np.inf, list[int]()
    tried = 0
    while tried < candidates or not chosen:
        kinds: list[Ints] = [one, several, across, (one, several, across)[random.integers(3)]]
        rows = [int(random.choice(kind)) for kind in kinds]
        tried += 1
        if len(set(rows)) < PROFILES:
            continue
        precision = sum((1.0 / source.variances(rows) for source in sources), np.zeros(len(table.step_s)))
        deviation = float(np.mean(1.0 / np.sqrt(precision))) if sources else 0.0
        if deviation < least:
            least, chosen = deviation, rows
    return chosen


def predict_tables(
    folder: Path, gpu_types: Sequence[str] | None = None, candidates: int = CANDIDATES, seed: int = 0
) -> list[TablePrediction]:
    """Predict each table of a folder from four of its rows and the other tables.

    Args:
        folder: Profiles in the form of Pollux and Sia.
        gpu_types: The types to use; by default all of each model.
        candidates: Sets of placements out of which the measured one is chosen.
        seed: Their seed.

    Raises:
        ConfigurationError: A file cannot be used, or scipy is not installed.
        UnknownName: A model has no table of a type.
    """
    models = models_in(folder)
    if not models:
        raise ConfigurationError(f"{folder}: no models; give a folder of profiles in the form of Pollux and Sia")
    tables: dict[tuple[str, str], StepTimes] = {}
    for model in models:
        known = gpu_types_of(folder / model)
        for name in gpu_types or known:
            if name not in known:
                raise UnknownName(f"GPU type of {model}", name, known)
            tables[model, name] = read_placements(folder / model, name)
    parts: dict[Pair, Floats] = {
        (model, a, b): source_parts(tables[model, b], tables[model, a])
        for model, a in tables
        for other, b in tables
        if other == model and a != b
    }
    ratios, found = KnownRatios(tables, parts), []
    for (model, name), table in tables.items():
        sources = [
            ScaledTable.of(table, of_other, ratios.prior(*pair))
            for pair, of_other in parts.items()
            if pair[:2] == (model, name)
        ]
        try:
            rows = choose_measured(table, sources, candidates, seed)
        except ConfigurationError as error:
            raise ConfigurationError(f"{folder / model}, GPU type {name}: {error}; name others with --types") from error
        predictions, law = predicted_s(table, sources, rows)
        held_out = np.setdiff1d(np.arange(len(table.step_s)), rows)
        errors = np.abs(predictions[held_out] / table.step_s[held_out] - 1.0)
        found.append(
            TablePrediction(
                model,
                name,
                tuple((table.placement[row], float(table.local_batch[row])) for row in rows),
                len(held_out),
                share_within(predictions, table, rows),
                share_within(law, table, rows),
                float(np.median(errors)),
            )
        )
    return found
