"""Charts of schedulers: GPUs in use, completion times, and a Gantt chart of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mirage.duration import HOUR_S
from mirage.job_state import Floats, Ints
from mirage.report.axes import Axis, Frame, rulers, ticks
from mirage.report.schedule.gpu_use import UseOverTime
from mirage.report.svg import WIDE, box, drawing, label, line, polyline, text_px
from mirage.report.theme import SERIES
from mirage.schedule.engine.gpu_log import GpuLog

MOST_POINTS = 800
"""Maximum number of points of a curve; more are not visible."""

MOST_LANES = 128
"""Maximum number of GPUs in a Gantt chart."""

MOST_BARS, LEAST_PX = 4000, 0.5
"""Bars of a Gantt chart; with more, bars narrower than this are left out."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 24.0, 26.0, 30.0


def series(k: int) -> str:
    """Returns the class of the k-th curve."""
    return f"w{k % SERIES + 1}"


def fill(k: int) -> str:
    """Returns the class of the k-th kind of bar."""
    return f"s{k % SERIES + 1}"


def use_chart(uses: Sequence[UseOverTime], width: float = WIDE, height: float = 240.0) -> str:
    """Draws GPUs in use over time, a curve for each kind."""
    end_s = max(float(use.time_s[-1]) for use in uses)
    most = max(use.gpus for use in uses)
    frame = _frame(width, height, end_s / HOUR_S, most * 1.05)
    parts = [*rulers(frame, about=4), *_hours(frame), label("GPUs held", 0, 14, class_="strong")]
    for k, use in enumerate(uses):
        limit = frame.y.place(use.gpus)
        parts.append(line(frame.left, limit, frame.right, limit, "limit"))
        parts.append(polyline(_steps(frame, use), series(k)))
    description = "; ".join(f"{use.name}: mean {use.mean_share:.0%} of {use.gpus} GPUs" for use in uses)
    return drawing(width, height, *parts, describes=description)


def jct_chart(jct_s: Mapping[str, Floats], width: float = WIDE, height: float = 260.0) -> str:
    """Draws the share of jobs completed by each time, a curve per scheduler or kind of job."""
    longest_h = max(float(np.percentile(times, 99)) for times in jct_s.values()) / HOUR_S
    frame = _frame(width, height, max(longest_h, 1e-3), 100.0)
    parts = [*rulers(frame, about=4, unit=" %"), *_hours(frame), label("jobs done within", 0, 14, class_="strong")]
    for k, times in enumerate(jct_s.values()):
        ordered = np.sort(times) / HOUR_S
        shares = np.arange(1, len(ordered) + 1) / len(ordered) * 100
        chosen = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_POINTS)).astype(int))
        points = [frame.at(0.0, 0.0), *(frame.at(float(ordered[j]), float(shares[j])) for j in chosen)]
        parts.append(polyline(points, series(k)))
    description = "; ".join(f"{name}: median {np.median(times) / HOUR_S:.2f} h" for name, times in jct_s.items())
    return drawing(width, height, *parts, describes=description)


def gantt_chart(log: GpuLog, width: float = WIDE) -> str:
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
    parts = [*_hours(frame)]
    for server, name in enumerate(names):
        top = frame.y.place(-float(lanes[server]))
        parts.append(line(frame.left, top, frame.right, top, "grid"))
        parts.append(label(name, left - 6, top + 9, text_anchor="end"))
    parts += _bars(log, frame, lanes, shown, lane_px)
    description = (
        f"{len(log.segments)} stretches of {len(log.jobs)} jobs on {shown} of {len(log.cluster.gpus_of)} servers."
    )
    return drawing(width, height, *parts, describes=description)


def _bars(log: GpuLog, frame: Frame, lanes: Ints, shown: int, lane_px: float) -> list[str]:
    bars = _merged(log, shown)
    least_h = 0.0 if len(bars) <= MOST_BARS else LEAST_PX * (frame.x.high - frame.x.low) / (frame.right - frame.left)
    parts = []
    for server, gpu, gpus, job, start_s, end_s in bars:
        begin, end = start_s / HOUR_S, min(end_s, log.now_s) / HOUR_S
        if end - begin < least_h:
            continue
        left, right = frame.x.clip(begin), frame.x.clip(end)
        top = frame.y.place(-float(lanes[server] + gpu))
        hint = f"{log.jobs.name[job]}: {gpus} GPU{'s' if gpus > 1 else ''}, {begin:.2f} to {end:.2f} h"
        tall = gpus * lane_px - 1
        parts.append(box(left, top + 0.5, max(right - left, LEAST_PX), tall, fill(kind_of(log, job)), hint))
    return parts


def _merged(log: GpuLog, shown: int) -> list[tuple[int, int, int, int, float, float]]:
    """Merges intervals of the first servers on adjacent GPUs.

    Returns server, first GPU, number of GPUs, job, begin and end of each.
    """
    bars: list[tuple[int, int, int, int, float, float]] = []
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
    """Returns a job's colour: its model, or the number of doublings of its GPUs (linear law)."""
    model = int(log.rows[job].model)
    return model if model >= 0 else int(log.rows[job].gpus).bit_length() - 1


def kind_names(log: GpuLog) -> dict[int, str]:
    """Returns the meaning of the colours of a log's jobs."""
    kinds = {kind_of(log, job): job for job in range(len(log.jobs))}
    named = {}
    for kind, job in sorted(kinds.items()):
        model = int(log.rows[job].model)
        lowest, highest = 1 << kind, (2 << kind) - 1
        widths = f"{lowest} GPU" if highest == 1 else f"{lowest} to {highest} GPUs"
        named[kind] = log.jobs.models[model] if model >= 0 else widths
    return named


def _frame(width: float, height: float, x_high: float, y_high: float) -> Frame:
    return Frame(Axis(0.0, x_high, _LEFT, width - _RIGHT), Axis(0.0, y_high, height - _BOTTOM, _TOP))


def _hours(frame: Frame) -> list[str]:
    """Draws vertical lines at round numbers of hours, with their names below."""
    parts = []
    for hour in ticks(frame.x.low, frame.x.high, max(int((frame.right - frame.left) / 80), 2)):
        x = frame.x.place(hour)
        parts.append(line(x, frame.top, x, frame.bottom, "grid"))
        parts.append(label(f"{hour:g} h", x, frame.bottom + 18, text_anchor="middle"))
    return parts


def _steps(frame: Frame, use: UseOverTime) -> list[tuple[float, float]]:
    """Returns a curve of steps; where there are too many, the mean of each stretch."""
    time_h = use.time_s / HOUR_S
    if len(time_h) <= MOST_POINTS:
        corners = zip(time_h[:-1], time_h[1:], use.held[:-1], strict=True)
        return [frame.at(float(t), float(held)) for begin, end, held in corners for t in (begin, end)]
    edges = np.linspace(0.0, time_h[-1], MOST_POINTS)
    area = np.concatenate([[0.0], np.cumsum(use.held[:-1] * np.diff(time_h))])
    means = np.diff(np.interp(edges, time_h, area)) / np.diff(edges)
    return [frame.at(float(t), float(mean)) for t, mean in zip(edges[1:], means, strict=True)]
