"""Charts of schedulers: GPUs in use, completion times, and a Gantt chart of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.report.axes import Axis, Frame, columns, numbers
from mirage.report.chart import MOST_POINTS, Chart, Curve, Level, Points, Scale, picture_of, shares_within, steps
from mirage.report.picture import WIDE, Bar, Drawn, Label, Picture, line, text_px
from mirage.report.theme import SERIES
from mirage.schedule.engine.gpu_log import GpuLog


@dataclass(frozen=True, slots=True)
class UseOverTime:
    """GPUs in use on the servers of one kind, as steps.

    Attributes:
        name: Name of the pool or the GPU type.
        gpus: Total number of GPUs.
        time_s: When the number in use changes, ascending; it begins with 0.
        held: Number in use from then on.
    """

    name: str
    gpus: int
    time_s: Floats
    held: Ints

    @property
    def mean_share(self) -> float:
        """Mean share in use from the first moment to the last."""
        lengths = np.diff(self.time_s)
        total = float(lengths.sum())
        return float((self.held[:-1] * lengths).sum()) / total / self.gpus if total > 0 else 0.0


def use_by_type(log: GpuLog) -> list[UseOverTime]:
    """Returns the use of every GPU type."""
    return _use(log, log.cluster.gpu_types, log.cluster.gpu_type_of)


def use_by_pool(log: GpuLog) -> list[UseOverTime]:
    """Returns the use of every pool; servers count in the pool that owns them."""
    return _use(log, log.cluster.pools, log.cluster.pool_of)


def _use(log: GpuLog, names: tuple[str, ...], kind_of: Ints) -> list[UseOverTime]:
    segment = log.placement_segments()
    start_s, end_s = log.segments.start_s[segment], np.minimum(log.segments.end_s[segment], log.now_s)
    kind = kind_of[log.placement_rows.server] if len(log.placement_rows) else np.zeros(0, np.int64)
    found = []
    for k, name in enumerate(names):
        here = kind == k
        changes_s = np.concatenate([start_s[here], end_s[here]])
        changes = np.concatenate([log.placement_rows.gpus[here], -log.placement_rows.gpus[here]])
        time_s, first = np.unique(np.concatenate([[0.0], changes_s, [log.now_s]]), return_inverse=True)
        held = np.zeros(len(time_s), dtype=np.int64)
        np.add.at(held, first[1:-1], changes)
        gpus = int(log.cluster.gpus_of[kind_of == k].sum())
        found.append(UseOverTime(name, gpus, time_s, np.cumsum(held)))
    return found


MOST_LANES = 128
"""Maximum number of GPUs in a Gantt chart."""

GpuBar = tuple[int, int, int, int, float, float]
"""Server, first GPU, number of GPUs, job, begin and end."""

MOST_BARS, LEAST_PX = 4000, 0.5
"""Bars of a Gantt chart; with more, bars narrower than this are left out."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 24.0, 26.0, 30.0


def series(k: int) -> str:
    """Returns the class of the k-th curve."""
    return f"w{k % SERIES + 1}"


def fill(k: int) -> str:
    """Returns the class of the k-th kind of bar."""
    return f"s{k % SERIES + 1}"


def use_chart(uses: Sequence[UseOverTime], width: float = WIDE) -> Picture:
    """Draws GPUs in use over time, a curve for each kind."""
    end_h = max(float(use.time_s[-1]) for use in uses) / HOUR_S
    levels = [Level(gpus) for gpus in dict.fromkeys(use.gpus for use in uses)]
    chart = Chart(
        title="GPUs held",
        x=Scale(0.0, end_h, numbers(unit=" h")),
        y=Scale(0.0, max(use.gpus for use in uses) * 1.05, numbers(4)),
        marks=[*levels, *(Curve(_held(use), series(k)) for k, use in enumerate(uses))],
    )
    description = "; ".join(f"{use.name}: mean {use.mean_share:.0%} of {use.gpus} GPUs" for use in uses)
    return picture_of(description, chart, width=width)


def jct_chart(jct_s: Mapping[str, Floats], width: float = WIDE) -> Picture:
    """Draws the share of jobs completed by each time, a curve per scheduler or kind of job.

    Args:
        jct_s: Completion times by name; one without times has no curve, one with times is needed.
        width: In pixels.
    """
    drawn = [(series(k), name, times) for k, (name, times) in enumerate(jct_s.items()) if len(times)]
    longest_h = max(float(np.percentile(times, 99)) for _, _, times in drawn) / HOUR_S
    chart = Chart(
        title="jobs done within",
        x=Scale(0.0, max(longest_h, 1e-3), numbers(unit=" h")),
        y=Scale(0.0, 100.0, numbers(4, " %")),
        marks=[Curve(shares_within(times / HOUR_S), style) for style, _, times in drawn],
    )
    description = "; ".join(f"{name}: median {np.median(times) / HOUR_S:.2f} h" for _, name, times in drawn)
    return picture_of(description, chart, width=width)


def gantt_chart(log: GpuLog, width: float = WIDE) -> Picture:
    """Draws the job on every GPU of every server, a lane per GPU.

    A colour stands for a model or a width of job.
    """
    lanes = np.concatenate([[0], np.cumsum(log.cluster.gpus_of)])
    shown = int(np.searchsorted(lanes, MOST_LANES, "right")) - 1
    shown = min(max(shown, 1), len(log.cluster.gpus_of))
    n_lanes = int(lanes[shown])
    lane_px = 6.0 if n_lanes <= 64 else 3.0
    names = log.cluster.server_names[:shown]
    left = max(text_px(name) for name in names) + 12
    height = _TOP + n_lanes * lane_px + _BOTTOM
    hours = Axis(0.0, max(log.now_s, 1.0) / HOUR_S, left, width - _RIGHT)
    frame = Frame(hours, Axis(-n_lanes, 0, height - _BOTTOM, _TOP))
    parts = columns(frame, numbers(unit=" h"))
    for server, name in enumerate(names):
        top = frame.y.place(-float(lanes[server]))
        parts.append(line(frame.left, top, frame.right, top, "grid"))
        parts.append(Label(name, left - 6, top + 9, anchor="end"))
    bars = _merged(log, shown)
    parts += _bars(log, bars, frame, lanes, lane_px)
    stretches = {(job, start_s) for _, _, _, job, start_s, _ in bars}
    description = (
        f"{len(stretches)} stretches of {len({job for job, _ in stretches})} jobs on {shown} of "
        f"{len(log.cluster.gpus_of)} servers."
    )
    return Picture(width, height, parts, description)


def _bars(log: GpuLog, bars: Sequence[GpuBar], frame: Frame, lanes: Ints, lane_px: float) -> list[Drawn]:
    style_of_kind = {kind: fill(k) for k, kind in enumerate(kind_names(log))}
    least_h = 0.0 if len(bars) <= MOST_BARS else LEAST_PX * (frame.x.high - frame.x.low) / (frame.right - frame.left)
    parts: list[Drawn] = []
    for server, gpu, gpus, job, start_s, end_s in bars:
        begin, end = start_s / HOUR_S, min(end_s, log.now_s) / HOUR_S
        if end - begin < least_h:
            continue
        left, right = frame.x.clip(begin), frame.x.clip(end)
        top = frame.y.place(-float(lanes[server] + gpu))
        hint = f"{log.jobs.name[job]}: {gpus} GPU{'s' if gpus > 1 else ''}, {begin:.2f} to {end:.2f} h"
        tall = gpus * lane_px - 1
        parts.append(Bar(left, top + 0.5, max(right - left, LEAST_PX), tall, style_of_kind[kind_of(log, job)], hint))
    return parts


def _merged(log: GpuLog, shown: int) -> list[GpuBar]:
    """Merges intervals of the first servers on adjacent GPUs."""
    bars: list[GpuBar] = []
    intervals = log.gpu_intervals()
    intervals = intervals[intervals.server < shown]
    order = np.lexsort((intervals.gpu, intervals.job, intervals.start_s, intervals.server))
    for server, gpu, job, start_s, end_s in intervals[order].tolist():
        last = bars[-1] if bars else None
        if last and (last[0], last[1] + last[2], last[3], last[4]) == (server, gpu, job, start_s):
            bars[-1] = (server, last[1], last[2] + 1, job, start_s, end_s)
        else:
            bars.append((server, gpu, 1, job, start_s, end_s))
    return bars


def kind_of(log: GpuLog, job: int) -> int:
    """Returns a job's kind: its model, or the number of doublings of its GPUs (linear law)."""
    model = int(log.rows[job].model)
    return model if model >= 0 else int(log.rows[job].gpus).bit_length() - 1


def kind_names(log: GpuLog) -> dict[int, str]:
    """Returns the names of the kinds of a log's jobs, in the order of their colours."""
    kinds = {kind_of(log, job): job for job in range(len(log.jobs))}
    named = {}
    for kind, job in sorted(kinds.items()):
        model = int(log.rows[job].model)
        lowest, highest = 1 << kind, (2 << kind) - 1
        widths = f"{lowest} GPU" if highest == 1 else f"{lowest} to {highest} GPUs"
        named[kind] = log.jobs.models[model] if model >= 0 else widths
    return named


def _held(use: UseOverTime) -> Points:
    """Returns GPUs in use as steps; where there are too many, the mean of each stretch."""
    time_h = use.time_s / HOUR_S
    if len(time_h) <= MOST_POINTS:
        return steps(time_h, use.held[:-1])
    edges = np.linspace(0.0, time_h[-1], MOST_POINTS)
    area = np.concatenate([[0.0], np.cumsum(use.held[:-1] * np.diff(time_h))])
    return steps(edges, np.diff(np.interp(edges, time_h, area)) / np.diff(edges))
