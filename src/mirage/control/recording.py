"""Recorded views with their plans, to decide again and compare."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mirage.atomic_file import write_output
from mirage.control.control_view import TRAINING, ControlView
from mirage.errors import ConfigurationError, reason
from mirage.schedule.scheduler_contract import ActiveJobs, GpuPlan, GpuView, Held, Servers, Surroundings
from mirage.schedule.schedulers.view_schedulers import ViewDecider
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds

FORMAT = "mirage-control-view-1"

_INTS = frozenset(
    {"id", "model", "gpus", "min_gpus", "max_gpus", "pool", "types", "status", "held", "servers", "gpu_type", "batch",
     "restarts", "preemptions", "free", "home", "wanted", "wanted_soon"}
)  # fmt: skip
"""Columns of whole numbers; all others are real."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded decision.

    Attributes:
        scheduler: Name of the scheduler.
        plan: The plan, as ``plan_text`` writes it.
        keys: What identifies each job in all views.
    """

    scheduler: str
    view: GpuView
    surroundings: Surroundings
    plan: str
    keys: tuple[tuple[int, int], ...]


def plan_text(plan: GpuPlan) -> str:
    """A plan as one line of JSON: equal plans give equal bytes."""
    return _text(
        {
            "actions": [
                {"action": type(action).__name__, **{f.name: getattr(action, f.name) for f in fields(action)}}
                for action in plan.actions
            ],
            "wake_s": plan.wake_s,
        }
    )


def record(path: Path, scheduler: str, view: ControlView, plan: GpuPlan) -> None:
    """Write a view with its plan into a file, readable by its owner only.

    Raises:
        ConfigurationError: It cannot be written.
    """
    shown, surroundings = view.view, view.surroundings
    held = shown.held
    text = _text(
        {
            "format": FORMAT,
            "scheduler": scheduler,
            "now_s": shown.now_s,
            "gpu_types": surroundings.gpu_types,
            "type_speed": surroundings.speeds.type_speed.tolist(),
            "models": surroundings.models,
            "speeds": _record_speeds(path.parent, surroundings.speeds) if surroundings.models else None,
            "pools": surroundings.pools,
            "nodes": surroundings.servers,
            "slurm_jobs": [{"id": job.id, "submit_s": job.submit_s, "user": job.user} for job in view.jobs],
            "jobs": {column.name: getattr(shown.jobs, column.name).tolist() for column in fields(ActiveJobs)},
            "servers": {column.name: getattr(shown.servers, column.name).tolist() for column in fields(Servers)},
            "held": {"first": held.first.tolist(), "server": held.server.tolist(), "gpus": held.gpus.tolist()},
            "plan": plan_text(plan),
        }
    )
    write_output(path, text + "\n", 0o600)


def read_recorded(path: Path) -> Recorded:
    """The decision in a file.

    Raises:
        ConfigurationError: It cannot be read, or is no recorded view.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"cannot read {path}: {reason(error)}; name a folder that --record has written"
        ) from error
    try:
        if found["format"] != FORMAT:
            raise ConfigurationError(f"{path}: format {found['format']!r} is not {FORMAT}; record the views again")
        held = Held(*(np.array(found["held"][name], np.int64) for name in ("first", "server", "gpus")))
        surroundings = Surroundings(
            gpu_types=tuple(found["gpu_types"]),
            pools=tuple(found["pools"]),
            servers=tuple(found["nodes"]),
            models=tuple(found.get("models", ())),
            speeds=_recorded_speeds(path.parent / str(found["speeds"]))
            if found.get("models")
            else linear_speeds(np.array(found["type_speed"])),
            jobs=len(found["jobs"]["id"]),
            gpus_for_one=(1,) * len(found["gpu_types"]),
        )
        jobs, servers = (ActiveJobs(**_columns(found["jobs"])), Servers(**_columns(found["servers"])))
        view = GpuView(float(found["now_s"]), jobs, servers, (), lambda: held)
        _check_shapes(view, surroundings)
        keys = tuple((int(row["id"]), int(row["submit_s"])) for row in found["slurm_jobs"])
        if len(keys) != len(jobs):
            raise ValueError("its jobs do not fit together")
        return Recorded(str(found["scheduler"]), view, surroundings, str(found["plan"]), keys)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} is no recorded view: {reason(error)}; record the views again") from error


def decide_again(recorded: Recorded, deciders: dict[str, ViewDecider] | None = None) -> str:
    """The plan for a recorded view, as text; it equals ``Recorded.plan``.

    Args:
        recorded: The view.
        deciders: The schedulers so far, by name, if the views of a run are decided one after another; updated.
    """
    made = {} if deciders is None else deciders
    if recorded.scheduler not in made:
        made[recorded.scheduler] = ViewDecider(recorded.scheduler, TRAINING)
    return plan_text(made[recorded.scheduler].decide(recorded.view, recorded.surroundings, recorded.keys))


def _record_speeds(folder: Path, speeds: Speeds) -> str:
    """Write the measured speeds into a folder once; returns the name of the file."""
    digest = hashlib.sha256(b"".join(column.tobytes() for column in speeds)).hexdigest()
    name = f"speeds-{digest[:16]}.npz"
    if not (folder / name).exists():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **speeds._asdict())
        write_output(folder / name, buffer.getvalue(), 0o600)
    return name


def _recorded_speeds(path: Path) -> Speeds:
    try:
        with np.load(path, allow_pickle=False) as found:
            return Speeds(**{name: found[name] for name in Speeds._fields})
    except (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"cannot read {path}: {reason(error)}") from error


def _check_shapes(view: GpuView, surroundings: Surroundings) -> None:
    """Check the lengths and numbers that compiled schedulers rely on."""
    n, servers, held = len(view.jobs), view.servers, view.held
    pools, types = len(surroundings.pools), len(surroundings.gpu_types)
    lengths = {len(getattr(view.jobs, column.name)) for column in fields(ActiveJobs)}
    of_pool = ("wanted", "wanted_soon", "wanted_from_s")
    ranges = [
        (servers.gpu_type, 0, types), (servers.pool, 0, pools), (servers.home, 0, pools),
        (view.jobs.gpu_type, -1, types), (view.jobs.pool, 0, pools),
        (held.server, 0, len(surroundings.servers)), (view.jobs.model, -1, len(surroundings.models)),
        (view.jobs.servers, 0, len(surroundings.servers) + 1),
    ]  # fmt: skip
    is_right = (
        lengths == {n}
        and all(len(getattr(servers, name)) == pools for name in of_pool)
        and all(
            len(getattr(servers, column.name)) == len(surroundings.servers)
            for column in fields(Servers)
            if column.name not in of_pool
        )
        and sorted(view.jobs.id.tolist()) == list(range(n))
        and len(held.first) == n + 1
        and held.first[0] == 0
        and held.first[-1] == len(held.server) == len(held.gpus)
        and bool((np.diff(held.first) >= 0).all())
        and all(bool(((column >= least) & (column < end)).all()) for column, least, end in ranges)
    )
    if not is_right:
        raise ValueError("its columns do not fit together")


def _columns(found: Mapping[str, list[Any]]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError("columns are a table")
    return {
        name: np.array(values, np.int64)
        if name in _INTS
        else np.array([_number(value) for value in values], np.float64)
        for name, values in found.items()
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _text(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no numbers for unknown (null) and for infinite ("inf")."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value
