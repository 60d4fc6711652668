"""Summary of a trace: waits, limits, sizes, states and busy nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.trace.statistics.utilization import BusyNodes, busy_nodes
from mirage.trace.table import JobTable, Labels

AT_LIMIT = 0.99
"""A job that ran for this share of its limit or more has used it up."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Count, mean and quantiles of a column, in its unit.

    Quantiles interpolate linearly.
    """

    count: int
    mean: float
    p25: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Self | None:
        """Returns the distribution of the values, ``None`` without values."""
        if not len(values):
            return None
        p25, p50, p75, p90, p95, p99, largest = np.percentile(values, (25, 50, 75, 90, 95, 99, 100)).tolist()
        return cls(len(values), float(values.mean()), p25, p50, p75, p90, p95, p99, largest)


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Jobs of similar size.

    Attributes:
        nodes_from: Fewest nodes of the class.
        nodes_to: Most nodes of the class, a power of two.
        jobs: Number of jobs.
        node_hours: Node-hours that they held, as far as known.
    """

    nodes_from: int
    nodes_to: int
    jobs: int
    node_hours: float


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Use of limits: run / limit, over the jobs for which both are known.

    Attributes:
        use: The distribution of run / limit.
        at_limit_share: Share of jobs that used 99 % or more.
        over_limit: Jobs that ran longer than their limit.
    """

    use: ValueSummary
    at_limit_share: float
    over_limit: int


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """Summary of a trace, durations in seconds.

    ``None`` means that the trace lacks the needed data.

    Attributes:
        jobs: Rows of the table.
        users: Distinct users.
        first_submit_s: When the first job was submitted.
        last_submit_s: When the last job was submitted.
        wait_s: From submission to start.
        run_s: From start to end, of jobs that have ended.
        limit_s: Time limits, without unlimited ones.
        unlimited: Jobs with an unlimited limit.
        nodes: Nodes of a job.
        gpus: GPUs of a job.
        sizes: Jobs by powers of two of their nodes.
        limit_use: Run time against limit.
        zero_duration: Jobs that started and ended in the same second.
        never_started: Jobs that left the queue without having started.
        starts_first: Jobs that started before their submission, so that their wait is unknown.
        longest_gap_s: Longest time without a submission.
        states: Jobs by state.
        partitions: Jobs by partition, most first.
        busy: Busy nodes over time.
    """

    jobs: int
    users: int
    first_submit_s: int | None
    last_submit_s: int | None
    wait_s: ValueSummary | None
    run_s: ValueSummary | None
    limit_s: ValueSummary | None
    unlimited: int
    nodes: ValueSummary | None
    gpus: ValueSummary | None
    sizes: tuple[SizeClass, ...]
    limit_use: LimitUse | None
    zero_duration: int
    never_started: int
    starts_first: int
    longest_gap_s: int | None
    states: Mapping[str, int]
    partitions: Mapping[str, int]
    busy: BusyNodes | None

    def to_json(self) -> dict[str, Any]:
        """Plain values: instants in ISO-8601 UTC (without the ``_s``), durations in seconds."""
        plain = asdict(self)
        for name in ("first_submit", "last_submit"):
            plain[name] = iso_utc(plain.pop(f"{name}_s"))
        for period in [*plain["busy"]["months"], *plain["busy"]["weeks"]] if plain["busy"] else []:
            period["begin"] = iso_utc(period.pop("begin_s"))
        return plain


def iso_utc(instant_s: int | None) -> str | None:
    """Formats an instant as ``2023-03-09T12:48:05Z``; ``None`` if missing or out of range."""
    try:
        return None if instant_s is None else datetime.fromtimestamp(instant_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None


def describe(table: JobTable) -> TraceStatistics:
    """Summarises a trace; missing values are left out of each figure, not counted as zero."""
    run_s, submitted = table.run_s, table.submit_s[table.submit_s >= 0]
    limited = (table.limit_s >= 0) & (table.limit_s < UNLIMITED_S)
    return TraceStatistics(
        jobs=len(table),
        users=len(_by_label(table.user)),
        first_submit_s=int(submitted.min()) if len(submitted) else None,
        last_submit_s=int(submitted.max()) if len(submitted) else None,
        wait_s=ValueSummary.of(table.wait_s[table.wait_s >= 0]),
        run_s=ValueSummary.of(run_s[run_s >= 0]),
        limit_s=ValueSummary.of(table.limit_s[limited]),
        unlimited=int((table.limit_s >= UNLIMITED_S).sum()),
        nodes=ValueSummary.of(table.nodes[table.nodes >= 0]),
        gpus=ValueSummary.of(table.gpus[table.gpus >= 0]),
        sizes=_sizes(table),
        limit_use=_limit_use(run_s[limited], table.limit_s[limited]),
        zero_duration=int((run_s == 0).sum()),
        never_started=int(table.never_started.sum()),
        starts_first=int(((table.start_s >= 0) & (table.start_s < table.submit_s)).sum()),
        longest_gap_s=int(np.diff(np.sort(submitted)).max()) if len(submitted) > 1 else None,
        states=_states(table.state),
        partitions=_by_label(table.partition),
        busy=busy_nodes(table),
    )


def _limit_use(run_s: Ints, limit_s: Ints) -> LimitUse | None:
    known = (run_s >= 0) & (limit_s > 0)
    use = run_s[known] / limit_s[known]
    distribution = ValueSummary.of(use)
    if distribution is None:
        return None
    return LimitUse(distribution, float((use >= AT_LIMIT).mean()), int((use > 1).sum()))


def _sizes(table: JobTable) -> tuple[SizeClass, ...]:
    known = table.nodes > 0
    if not known.any():
        return ()
    nodes = table.nodes[known]
    power = np.ceil(np.log2(nodes)).astype(np.int64)
    held_s = np.maximum(np.where(table.run_s >= 0, table.run_s, table.elapsed_s), 0)[known]
    node_hours = nodes * held_s / HOUR_S
    jobs, hours = np.bincount(power), np.bincount(power, weights=node_hours)
    return tuple(SizeClass(2**p // 2 + 1, 2**p, int(jobs[p]), float(hours[p])) for p in range(len(jobs)) if jobs[p])


def _states(states: Ints) -> dict[str, int]:
    counts = [(int((states == state).sum()), state.name) for state in JobState]
    return {name: count for count, name in sorted(counts, key=_count, reverse=True) if count}


def _by_label(labels: Labels) -> dict[str, int]:
    counts = np.bincount(labels.codes[labels.codes > MISSING], minlength=len(labels.names)).tolist()
    return {name: count for count, name in sorted(zip(counts, labels.names), key=_count, reverse=True) if count}


def _count(entry: tuple[int, str]) -> int:
    return entry[0]
