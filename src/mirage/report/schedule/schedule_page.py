"""Pages of schedulers: one run with use, completion times and Gantt chart; a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.errors import quantity
from mirage.report.html_page import CARDS, chart, command, folded, key, page, section, table, tiles
from mirage.report.schedule.gpu_charts import (
    UseOverTime,
    fill,
    gantt_chart,
    jct_chart,
    kind_names,
    kind_of,
    series,
    use_by_pool,
    use_by_type,
    use_chart,
)
from mirage.report.schedule.measure_table import measures_section
from mirage.report.schedule.schedule_text import comparison_cells
from mirage.schedule.compare.gpu_comparison import GpuComparison
from mirage.schedule.compare.gpu_comparison_row import MEAN, GpuComparisonRow
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.measures import completed, measures


def run_page(
    row: GpuComparisonRow, log: GpuLog, provenance: dict[str, Any], window_s: tuple[float, float] | None = None
) -> str:
    """Returns the page of one run; figures of jobs are over those submitted in the window."""
    lead = f"{row.jobs:,.0f} jobs on {log.cluster.gpus:,} GPUs in {len(log.cluster.gpus_of):,} servers."
    figures = [
        ("mean JCT", f"{row.mean_jct_s / HOUR_S:.2f} h", f"99 %: {row.p99_jct_s / HOUR_S:.2f} h"),
        ("mean wait", f"{row.mean_wait_s / HOUR_S:.2f} h", "all time in the queue"),
        ("makespan", f"{row.makespan_s / HOUR_S:.2f} h", f"{row.gpu_h:,.0f} GPU-hours"),
        ("preemptions", f"{row.preemptions:,.0f}", f"{row.lost_gpu_h:.1f} GPU-hours lost"),
    ]
    return page(
        f"{row.scheduler} on {row.workload}",
        lead,
        tiles(figures),
        _use_section("GPU types", use_by_type(log)),
        *([_use_section("Pools", use_by_pool(log))] if len(log.cluster.pools) > 1 else []),
        _jct_section("Every curve is one kind of job.", _jct_by_kind(log, window_s)),
        _gantt_section(log),
        _rows_section([row]),
        measures_section(measures(log, window_s)),
        folded("How this was made", command(str(provenance["command"]))),
    )


def comparison_page(comparison: GpuComparison, provenance: dict[str, Any]) -> str:
    """Returns the page of a comparison."""
    workloads = list(dict.fromkeys(outcome.row.workload for outcome in comparison.outcomes))
    schedulers = list(dict.fromkeys(outcome.row.scheduler for outcome in comparison.outcomes))
    jct_s = {
        scheduler: np.concatenate([o.jct_s for o in comparison.outcomes if o.row.scheduler == scheduler])
        for scheduler in schedulers
    }
    of_all = [row for row in comparison.rows if row.workload == MEAN] or list(comparison.rows)
    ranked = sorted(of_all, key=lambda row: row.mean_jct_s)
    figures = [(row.scheduler, f"{row.mean_jct_s / HOUR_S:.2f} h", "mean JCT") for row in ranked]
    n = len(comparison.failed)
    missing = f" {quantity(n, 'trial')} failed and {'are' if n > 1 else 'is'} missing here." if n else ""
    return page(
        "Schedulers compared",
        f"{quantity(len(schedulers), 'scheduler')}, {quantity(len(workloads), 'workload')}: "
        f"{', '.join(workloads)}.{missing}",
        tiles(figures),
        _jct_section("Jobs of all workloads together.", jct_s),
        _rows_section(comparison.rows),
        folded("How this was made", command(str(provenance["command"]))),
    )


def _use_section(heading: str, uses: Sequence[UseOverTime]) -> str:
    entries = [(series(k), f"{use.name}: {use.mean_share:.0%} of {use.gpus:,} GPUs") for k, use in enumerate(uses)]
    text = "GPUs held over time; dashed lines show the total. The key gives the mean share."
    return section(heading, text, key(entries), chart(lambda width: use_chart(uses, width)))


def _jct_section(explained: str, jct_s: dict[str, Floats]) -> str:
    entries = [
        (series(k), f"{name}: median {np.median(times) / HOUR_S:.2f} h")
        for k, (name, times) in enumerate(jct_s.items())
        if len(times)
    ]
    if not entries:
        return section("Completion times", "No job was completed.")
    text = f"Share of jobs that were completed within a number of hours after submission. {explained}"
    return section("Completion times", text, key(entries), chart(lambda width: jct_chart(jct_s, width)))


def _jct_by_kind(log: GpuLog, window_s: tuple[float, float] | None) -> dict[str, Floats]:
    done = completed(log.rows, window_s)
    kinds = np.array([kind_of(log, job) for job in done.id])
    times = np.asarray(done.due_s - done.submit_s)
    return {name: times[kinds == kind] for kind, name in kind_names(log).items()}


def _gantt_section(log: GpuLog) -> str:
    entries = [(fill(k), name) for k, name in enumerate(kind_names(log).values())]
    text = "A lane for every GPU of every server; point at a bar to see its job."
    return section("Jobs on GPUs", text, key(entries), chart(lambda width: gantt_chart(log, width)))


def _rows_section(rows: Sequence[GpuComparisonRow]) -> str:
    names, cells = comparison_cells(rows)
    text = "JCT is the time from submission to completion; waiting is all time in the queue."
    return section("Figures", text, table(names, cells, numbers_from=2, cards=len(cells) <= CARDS))
