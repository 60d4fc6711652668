"""Features of a job and its queue at its submission, from a job table alone.

The state of the queue is rebuilt from submissions, starts and ends of the table: a job is pending from its submission
(or the time when it became eligible) to its start, or to its end if it never started, and running from its start to
its end. Nothing later than the submission is used: no run time or end of a job that has not ended, no wait of a job
that has not started.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, HOUR_S
from mirage.job_state import MISSING
from mirage.predict.model_file import Feature
from mirage.predict.waits.queue_sweep import SIZES, QueueSums, SweptJobs, sweep
from mirage.predict.waits.wait_sample import WaitSample
from mirage.trace.table import JobTable, Labels

LABELS = ("partition", "qos", "account", "user")

_STATE = {
    "pending_jobs": "jobs",
    "pending_nodes": "nodes",
    "pending_node_h": "node h",
    "running_jobs": "jobs",
    "running_nodes": "nodes",
    "running_node_h": "node h",
}
_HALF_LIVES_S = (6 * HOUR_S, 3 * DAY_S)
_LONGEST_LIMIT_S = 30 * DAY_S
_NEVER_S = np.iinfo(np.int64).max // 4

REQUEST = (
    Feature("limit", "s"),
    Feature("nodes", "nodes"),
    Feature("gpus", "GPUs"),
    Feature("cpus", "cores"),
    *(Feature(name, "label") for name in LABELS),
    Feature("hour", "h"),
    Feature("weekday", "d"),
)
"""The request and its time; a label is the index of a name in the model's own list, NaN if it is not there."""

QUEUE = (
    *(Feature(f"{group}_{name}", unit) for group in ("all", "partition", "user") for name, unit in _STATE.items()),
    Feature("not_larger_pending_jobs", "jobs"),
    Feature("not_larger_pending_nodes", "nodes"),
    Feature("not_larger_pending_node_h", "node h"),
    Feature("oldest_pending_age", "s"),
    Feature("user_day_jobs", "jobs"),
    Feature("user_day_node_h", "node h"),
    *(
        feature
        for group in ("partition", "partition_size", "user")
        for feature in (
            *(Feature(f"{group}_recent_wait_{half // HOUR_S}h", "log10 s") for half in _HALF_LIVES_S),
            Feature(f"{group}_since_start", "s"),
        )
    ),
)
"""The queue at that time: pending and running jobs, the user's last 24 h, waits that ended recently."""

FEATURES = (*REQUEST, *QUEUE)

Names = Mapping[str, tuple[str, ...]]
"""Names of partitions, QOS, accounts and users that a model knows."""


def names_of(table: JobTable) -> dict[str, tuple[str, ...]]:
    """Returns the names in a table, by column."""
    return {name: getattr(table, name).names for name in LABELS}


def waits_at_submission(table: JobTable, names: Names) -> WaitSample:
    """Returns all jobs at their submission, with their waits from then or from eligibility.

    Args:
        table: Jobs in any order; those without a submission are left out.
        names: The names that labels encode.

    Returns:
        The sample in the order of submissions; its rows are ``rows_of_sample`` of the same table.
    """
    table = table[rows_of_sample(table)]
    request_s = _request_s(table)
    last_known_s = max(int(max(table.submit_s.max(), table.start_s.max(), table.end_s.max())), 0) if len(table) else 0
    started = table.start_s >= request_s
    ended = table.end_s >= request_s
    left_s = np.where(started, table.start_s, np.where(ended, table.end_s, last_known_s))
    request = _request(table, request_s, names)
    queue = _queue(table, request_s, left_s, started)
    return WaitSample(
        request_s=request_s,
        waited_s=left_s - request_s,
        started=started,
        inputs=np.concatenate((request, queue), axis=1).astype(np.float32),
        features=FEATURES,
        size_class=size_class(table.partition, table.nodes, names),
        alike=_alike(table, request_s),
    )


def rows_of_sample(table: JobTable) -> NDArray[np.intp]:
    """Returns the rows of a table that a sample consists of, in its order."""
    rows = np.flatnonzero(table.submit_s >= 0)
    return rows[np.argsort(_request_s(table)[rows], kind="stable")]


def size_class(partition: Labels, nodes: Ints, names: Names) -> Ints:
    """Partition × size: one node, 2 to 7, more; all unknown partitions share one number."""
    known = names["partition"]
    place = _places(partition, known)
    place = np.where(np.isnan(place), len(known), place).astype(np.int64)
    return np.asarray(place * 3 + np.digitize(nodes, (2, 8)), dtype=np.int64)


def _request_s(table: JobTable) -> Ints:
    """The time from which a job waits for the scheduler alone."""
    request_s: Ints = np.maximum(table.submit_s, table.eligible_s)
    return request_s


def _request(table: JobTable, request_s: Ints, names: Names) -> Floats:
    """Features of the request and its time, shape (n, f)."""
    numbers = [np.where(values < 0, np.nan, values) for values in (table.limit_s, table.nodes, table.gpus, table.cpus)]
    labels = [_places(getattr(table, name), names[name]) for name in LABELS]
    return np.stack([*numbers, *labels, request_s % DAY_S / HOUR_S, (request_s // DAY_S + 3) % 7], axis=1)


def _places(labels: Labels, known: tuple[str, ...]) -> Floats:
    """Index of each name among the known ones, NaN if it is not among them."""
    place = {name: k for k, name in enumerate(known)}
    of_code = np.array([place.get(name, np.nan) for name in labels.names] + [np.nan])
    return of_code[labels.codes]  # a missing label has code −1: the last


def _queue(table: JobTable, request_s: Ints, left_s: Ints, started: NDArray[np.bool_]) -> Floats:
    """Features of the queue at the submission of every job, shape (n, f)."""
    n = len(table)
    partition, user = _numbered(table.partition), _numbered(table.user)
    partitions, users = int(partition.max(initial=0)) + 1, int(user.max(initial=0)) + 1
    nodes = np.maximum(table.nodes, 1).astype(np.float64)
    limit_s = np.clip(table.limit_s, 0, _LONGEST_LIMIT_S).astype(np.float64)
    end_s = np.where(started, np.where(table.end_s >= left_s, table.end_s, _NEVER_S), _NEVER_S)
    jobs = SweptJobs(
        request_s=request_s,
        left_s=left_s,
        end_s=end_s,
        started=started.astype(np.int64),
        by_left=np.argsort(left_s, kind="stable"),
        by_end=np.argsort(end_s, kind="stable"),
        nodes=nodes,
        limit_s=limit_s,
        partition=partition,
        size=np.minimum(np.log2(nodes).astype(np.int64), SIZES - 1),
        user=user,
    )
    groups, wait_groups = 1 + partitions + users, partitions + partitions * SIZES + users
    sums = QueueSums(
        pending=np.zeros((groups, 3)),
        running=np.zeros((groups, 3)),
        by_size=np.zeros((partitions, SIZES, 3)),
        waits=np.zeros((wait_groups, len(_HALF_LIVES_S), 2)),
        last_start_s=np.zeros(wait_groups),
        day=np.zeros((users, 2)),
    )
    out = np.full((n, len(QUEUE)), np.nan)
    sweep(jobs, sums, np.array(_HALF_LIVES_S, dtype=np.float64), out)
    return out


def _numbered(labels: Labels) -> Ints:
    """Codes from 0; missing ones get a code of their own."""
    return np.where(labels.codes == MISSING, len(labels.names), labels.codes)


def _alike(table: JobTable, request_s: Ints) -> Ints:
    """One number for jobs that one user submitted within an hour with one request."""
    columns = (request_s // HOUR_S, table.user.codes, table.partition.codes, table.nodes, table.limit_s)
    codes = np.zeros(len(table), dtype=np.int64)
    for column in columns:
        further = np.unique(column, return_inverse=True)[1]
        codes = np.unique(codes * (int(further.max(initial=0)) + 1) + further, return_inverse=True)[1].astype(np.int64)
    return codes
