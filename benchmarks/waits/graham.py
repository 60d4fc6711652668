"""The jobs that waited on DRAC Graham at noon, May and June 2021, as a sample of waits.

Source: mila-iqia/slurm-queue-time-pred (MIT), ``graham_on_submit_days.parquet``: the jobs that were pending at the poll
of the day on which they were submitted. The wait counts from the poll to the start. Columns that are unknown at the
poll are left out: run times and allocations of the job, its end, its priority (of a later moment), and the columns
``q_*_run_hours``, which are the true run times of jobs that have not started.

Columns that are known at the poll are added: the number of jobs of the same user, partition or request in the poll, and
the outcome of those in earlier polls: waits of those that had started, ages of those that had not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.predict.model_file import Feature
from mirage.predict.waits.wait_sample import WaitSample

FILE = Path("queue-wait-graham") / "graham_on_submit_days.parquet"
_TIMES = ("submit_time", "eligible_time", "start_time", "poll_time")
_UNITS = {"jobs": "jobs", "cores": "cores", "mem": "MiB", "hours": "core h", "gpus": "GPUs"}
_FADING_DAYS = (0.7, 3.0)
_REMEMBERED_DAYS = 8

Columns = dict[str, NDArray[Any]]


def read_graham(folder: Path) -> Columns:
    """The columns of the data set, in the order of the polls; times in seconds since 1970."""
    from pyarrow import parquet

    table = parquet.read_table(folder / FILE)
    columns = {name: table[name].to_numpy() for name in table.column_names if not name.endswith(("_wait", "_file"))}
    for name in _TIMES:
        columns[name] = columns[name].astype("U19").astype("datetime64[s]").astype(np.int64)
    order = np.lexsort((columns["job_unique_id"], columns["poll_time"]))
    return {name: values[order] for name, values in columns.items()}


def graham_sample(columns: Columns, *, published_only: bool = False) -> WaitSample:
    """The sample of waits.

    Args:
        columns: As `read_graham` gives them.
        published_only: Only the data set's own columns, without what is added here.
    """
    request = _request(columns)
    named: dict[str, tuple[str, NDArray[Any]]] = {**request, **_queue(columns)}
    if not published_only:
        named |= _drain_times(columns) | _same_poll(columns, request) | _earlier_polls(columns, request)
    group = _codes(columns["account_id"], columns["partition_id_x"], *(request[k][1] for k in ("cpus", "limit", "mem")))
    return WaitSample(
        request_s=columns["poll_time"],
        waited_s=columns["poll_wait_sec"],
        started=np.ones(len(columns["poll_time"]), dtype=np.bool_),
        inputs=np.stack([values.astype(np.float32) for _, values in named.values()], axis=1),
        features=tuple(Feature(name, unit) for name, (unit, _) in named.items()),
        size_class=size_class(columns, request),
        alike=_codes(columns["poll_time"], group),
    )


def size_class(columns: Columns, request: dict[str, tuple[str, NDArray[Any]]]) -> Ints:
    """Partition × size: the four largest and all others; one core, to 32, more, and GPUs."""
    partitions, counts = np.unique(columns["partition_id_x"], return_counts=True)
    largest = partitions[np.argsort(-counts)][:4]
    partition = np.select([columns["partition_id_x"] == p for p in largest], np.arange(len(largest)), len(largest))
    cpus, gpus = request["cpus"][1], request["gpus"][1]
    size = np.select([gpus > 0, cpus > 32, cpus > 1], [3, 2, 1], 0)
    return partition * 4 + size


def _request(columns: Columns) -> dict[str, tuple[str, NDArray[Any]]]:
    """The user's request, and its time."""
    tres = columns["req_tres"].astype(str)
    distinct, which = np.unique(tres, return_inverse=True)

    def counted(pattern: str) -> Ints:
        found = [re.search(pattern, text) for text in distinct]
        return np.array([int(match[1]) if match else 0 for match in found])[which]

    poll_s, cpus = columns["poll_time"], columns["req_cpus"]
    return {
        "cpus": ("cores", cpus),
        "gpus": ("GPUs", counted(r"gres/gpu=(\d+)")),
        "nodes": ("nodes", counted(r"node=(\d+)")),
        "billing": ("1", counted(r"billing=(\d+)")),
        "mem": ("MiB", columns["req_mem_total"]),
        "mem_per_cpu": ("MiB", columns["req_mem_total"] / cpus),
        "limit": ("s", columns["time_limit_sec"]),
        "partition": ("label", columns["partition_id_x"]),
        "account": ("label", columns["account_id"]),
        "age": ("s", poll_s - columns["submit_time"]),
        "eligible_age": ("s", np.maximum(poll_s - columns["eligible_time"], -1)),  # −1: not eligible yet
        "weekday": ("1", (poll_s // DAY_S + 3) % 7),
    }


def _queue(columns: Columns) -> dict[str, tuple[str, NDArray[Any]]]:
    """The state of queue and fair-share at the poll, as published."""
    named = {}
    for name, values in columns.items():
        if re.match(r"[qr]_", name) and not name.endswith("run_hours"):
            named[name] = (next(unit for word, unit in _UNITS.items() if word in name.split("_")), values)
        elif name.endswith("_poll"):
            named[name] = ("1", np.where(np.isfinite(values), values, np.nan))
    return named


def _drain_times(columns: Columns) -> dict[str, tuple[str, NDArray[Any]]]:
    """Hours of work ahead for each core or GPU in use."""
    return {
        f"drain_{kind}{where or '_all'}": (
            "h",
            columns[f"q{where}_{kind}_hours_above"] / (columns[f"r{where}_{kind}s_above"] + 1),
        )
        for kind in ("core", "gpu")
        for where in ("", "_p")
    }


def _groups(columns: Columns, request: dict[str, tuple[str, NDArray[Any]]]) -> dict[str, Ints]:
    """Jobs that may fare alike: of one partition, account, size, or two of them."""
    partition, account = columns["partition_id_x"], columns["account_id"]
    limit_class = np.floor(np.log2(request["limit"][1]))
    size = _codes(np.floor(np.log2(request["cpus"][1])), request["gpus"][1] > 0, limit_class)
    return {
        "all": np.zeros(len(partition), dtype=np.int64),
        "partition": _codes(partition),
        "account": _codes(account),
        "size": size,
        "partition_account": _codes(partition, account),
        "partition_size": _codes(partition, size),
    }


def _same_poll(columns: Columns, request: dict[str, tuple[str, NDArray[Any]]]) -> dict[str, tuple[str, NDArray[Any]]]:
    """Jobs that one poll shows: their number by kind, and the number submitted earlier."""
    poll, named = columns["poll_time"], {}
    groups = _groups(columns, request)
    kinds = {name: groups[name] for name in ("all", "partition", "account", "partition_account")}
    kinds["alike"] = _codes(groups["partition_account"], *(request[k][1] for k in ("cpus", "limit", "mem")))
    core_hours = request["cpus"][1] * request["limit"][1] / HOUR_S
    for name, group in kinds.items():
        group = _codes(poll, group)
        named[f"poll_{name}"] = ("jobs", np.bincount(group)[group])
        order = np.lexsort((columns["job_unique_id"], columns["submit_time"], group))
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        size = np.diff(first, append=len(group))
        earlier = np.empty(len(group), dtype=np.int64)
        earlier[order] = np.arange(len(group)) - np.repeat(first, size)
        named[f"poll_{name}_earlier"] = ("jobs", earlier)
        if name in ("partition", "account"):
            named[f"poll_{name}_core_hours"] = ("core h", np.bincount(group, core_hours)[group])
    return named


def _earlier_polls(
    columns: Columns, request: dict[str, tuple[str, NDArray[Any]]]
) -> dict[str, tuple[str, NDArray[Any]]]:
    """How jobs of earlier polls fared, as far as this poll can know."""
    poll, start = columns["poll_time"], columns["start_time"]
    groups, named = _groups(columns, request), {}
    kinds = ("jobs", "pending", "pending_share", "started_6h", *(f"wait_{days:g}d" for days in _FADING_DAYS))
    for name in groups:
        for kind in kinds:
            named[f"past_{name}_{kind}"] = ("log10 s" if kind.startswith("wait") else "1", np.full(len(poll), np.nan))
    for now in np.unique(poll)[1:]:
        here = np.flatnonzero(poll == now)
        past = np.flatnonzero((poll < now) & (poll >= now - _REMEMBERED_DAYS * DAY_S))
        pending = start[past] > now
        wait = np.log10(np.minimum(start[past], now) - poll[past])
        lately = ~pending & (start[past] > now - 6 * HOUR_S)
        for name, group in groups.items():
            own = _Sums(group[past], group[here])
            jobs = own.of(np.ones(len(past)))
            kinds = {"jobs": jobs, "pending": own.of(pending), "started_6h": own.of(lately)}
            with np.errstate(invalid="ignore"):
                kinds["pending_share"] = kinds["pending"] / jobs
                for days in _FADING_DAYS:
                    fading = 0.5 ** ((now - poll[past]) / DAY_S / days)
                    kinds[f"wait_{days:g}d"] = own.of(fading * wait) / own.of(fading)
            for kind, values in kinds.items():
                named[f"past_{name}_{kind}"][1][here] = values
    return named


class _Sums:
    """Sums over past rows of a group, for rows of now."""

    def __init__(self, past: Ints, now: Ints) -> None:
        self.past, self.now = past, now
        self.groups = int(max(past.max(initial=0), now.max(initial=0))) + 1

    def of(self, values: NDArray[Any]) -> Floats:
        return np.bincount(self.past, values, self.groups)[self.now]


def _codes(*columns: NDArray[Any]) -> Ints:
    """Numbers for the distinct combinations of columns."""
    codes = np.unique(columns[0], return_inverse=True)[1].astype(np.int64)
    for column in columns[1:]:
        further = np.unique(column, return_inverse=True)[1]
        codes = np.unique(codes * (further.max() + 1) + further, return_inverse=True)[1].astype(np.int64)
    return codes
