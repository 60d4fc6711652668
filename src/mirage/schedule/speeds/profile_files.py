"""Files of profiles: step times by placement and size, gradient noise, models' facts.

The files are those of Pollux and Sia: ``placements-TYPE.csv`` (a placement ``24`` is two workers on one server and four
on another), ``scalability-TYPE.csv`` and ``validation-BATCH.csv``, each of them plain or compressed by gzip.

Facts that the tables do not contain are restart costs and slowdowns. The six models of Pollux and Sia have the
published values: restart costs as in Sia (SOSP'23), slowdowns from the calibration of its simulator on real runs. A
file ``models.toml`` in the folder of profiles gives them for other models.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, reason
from mirage.text_file import read_toml_file

Value = TypeVar("Value")

FACTS_FILE = "models.toml"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Measured step times of one model on one GPU type, one row per measurement.

    Attributes:
        placement: The number of workers on each server as digits, in the smallest rotation; "" if only the size is
            known.
        servers: Number of servers.
        gpus: Number of GPUs.
        local_batch: Samples that each GPU processes at once.
        step_s: Seconds of a step.
        sync_s: Seconds of its exchange of gradients.
    """

    placement: tuple[str, ...]
    servers: Ints
    gpus: Ints
    local_batch: Floats
    step_s: Floats
    sync_s: Floats


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Gradient noise of one model.

    Attributes:
        batch: Batches measured, ascending, shape (n,).
        progress: Progress at the end of every epoch, shape (n, epochs).
        grad_sqr: Squared norm of the gradient, shape (n, epochs).
        grad_var: Its variance, shape (n, epochs).
    """

    batch: Ints
    progress: Floats
    grad_sqr: Floats
    grad_var: Floats


def models_in(folder: Path) -> tuple[str, ...]:
    """Names of the models in a folder: its sub-folders with ``validation-BATCH.csv``."""
    return tuple(sorted({path.parent.name for path in folder.glob("*/validation-*.csv*")}))


def gpu_types_of(folder: Path) -> tuple[str, ...]:
    """GPU types on which the model of this folder was measured."""
    names = (re.fullmatch(r"placements-(.+?)\.csv(\.gz)?", path.name) for path in folder.glob("placements-*"))
    return tuple(sorted({name[1] for name in names if name}))


def read_placements(folder: Path, gpu_type: str) -> StepTimes:
    """Step times by placement."""
    names = ("placement", "local_bsz", "step_time", "sync_time")
    path = _file(folder, f"placements-{gpu_type}.csv")
    placement, *numbers = _columns(path, names, (str, float, float, float), key=2)
    patterns = tuple(str(p) for p in placement)
    local, step_s, sync_s = map(np.array, numbers)
    gpus = np.array([sum(map(int, p)) for p in patterns])
    return StepTimes(patterns, np.array([len(p) for p in patterns]), gpus, local, step_s, sync_s)


def read_scalability(folder: Path, gpu_type: str) -> StepTimes:
    """Step times by the number of servers and GPUs."""
    names = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
    columns = _columns(_file(folder, f"scalability-{gpu_type}.csv"), names, (float,) * 5)
    servers, gpus, local, step_s, sync_s = map(np.array, columns)
    return StepTimes(("",) * len(servers), servers.astype(np.int64), gpus.astype(np.int64), local, step_s, sync_s)


def read_noise(folder: Path, epochs: int | None) -> GradientNoise:
    """Gradient noise of all measured batches over ``epochs`` epochs.

    By default these are all epochs that every batch has.

    Raises:
        ConfigurationError: A batch was measured over fewer epochs.
    """
    files = {int(re.findall(r"\d+", path.name)[0]): path for path in folder.glob("validation-*.csv*")}
    names = ("progress", "grad_sqr", "grad_var")
    tables = {batch: _columns(files[batch], names, (float,) * 3) for batch in sorted(files)}
    measured = min(len(columns[0]) for columns in tables.values())
    n = measured if epochs is None else epochs
    if not 1 <= n <= measured:
        raise ConfigurationError(f"{folder}: {n} epochs requested, {measured} measured for all batches; give fewer")
    progress, sqr, var = (np.array([table[k][:n] for table in tables.values()]) for k in range(3))
    return GradientNoise(np.array(list(tables)), progress, sqr, var)


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise ConfigurationError(f"{folder}: it has no {name}; profiles need one for every measured GPU type")


def _columns(
    path: Path, names: Sequence[str], kinds: Sequence[Callable[[str], Value]], key: int = 0
) -> list[list[Value]]:
    """The named columns of a CSV, in which no two rows are equal in the first ``key`` of them."""
    columns: list[list[Value]] = [[] for _ in names]
    lines: dict[tuple[Value, ...], int] = {}
    rows = csv.DictReader(_text(path).splitlines())
    missing = sorted(set(names) - set(rows.fieldnames or ()))
    if missing:
        raise ConfigurationError(f"{path}:1: no column {', '.join(missing)}; it needs {', '.join(names)}")
    for row in rows:
        try:
            for column, name, kind in zip(columns, names, kinds):
                column.append(kind(row[name]))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{path}:{rows.line_num}: {error}; fix or remove this line") from error
        first = lines.setdefault(tuple(column[-1] for column in columns[:key]), rows.line_num)
        if key and first != rows.line_num:
            raise ConfigurationError(
                f"{path}:{rows.line_num}: {' and '.join(names[:key])} are as in line {first}; remove one of the lines"
            )
    if not columns[0]:
        raise ConfigurationError(f"{path}: it has no rows; add measurements or remove the file")
    return columns


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ConfigurationError(f"{path}: cannot be read: {reason(error)}; check the file") from error


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model in addition to its tables.

    Attributes:
        restart_s: Seconds lost at a start, a restart or a resize.
        slowdown: Real step time over measured step time.
        epochs: Number of epochs that a job trains; None for all measured epochs.
        max_local: Maximum local batch by GPU type, where it is smaller than the measured one.
    """

    restart_s: float = 30.0
    slowdown: float = 1.0
    epochs: int | None = None
    max_local: Mapping[str, int] = field(default_factory=dict)


PUBLISHED: Mapping[str, ModelFacts] = {
    "bert": ModelFacts(120.0, 1.2, 2),
    "cifar10": ModelFacts(50.0, 1.8, 100),
    "deepspeech2": ModelFacts(25.0, 1.2, 80, {"rtx": 57}),
    "imagenet": ModelFacts(250.0, 1.2, 90),
    "ncf": ModelFacts(15.0, 1.5, 10),
    "yolov3": ModelFacts(80.0, 1.2, 50),
}


def read_facts(folder: Path) -> dict[str, ModelFacts]:
    """Facts by model: the published ones, replaced by those of the folder's own file.

    Raises:
        ConfigurationError: The file cannot be read, or has unknown keys or invalid values.
    """
    path = folder / FACTS_FILE
    try:
        declared = read_toml_file(path, "write a table [MODEL] for every model", at_rest=True)
    except FileNotFoundError:
        return dict(PUBLISHED)
    return {**PUBLISHED, **{model: _read_model(path, model, keys) for model, keys in declared.items()}}


def _read_model(path: Path, model: str, declared: Any) -> ModelFacts:
    known = [f.name for f in fields(ModelFacts)]
    if not isinstance(declared, dict) or set(declared) - set(known):
        raise ConfigurationError(f"{path}: [{model}] is {declared!r}; its keys are {', '.join(known)}")
    facts = ModelFacts(**declared)
    fits = (
        isinstance(facts.restart_s, int | float)
        and isinstance(facts.slowdown, int | float)
        and facts.restart_s >= 0
        and facts.slowdown > 0
        and (facts.epochs is None or (isinstance(facts.epochs, int) and facts.epochs >= 1))
        and isinstance(facts.max_local, dict)
    )
    if not fits:
        raise ConfigurationError(
            f"{path}: [{model}] is {declared!r}; restart_s is 0 or more, slowdown above 0, epochs 1 or more, max_local "
            "a table of GPU types"
        )
    return facts
