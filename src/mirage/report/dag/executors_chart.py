"""Chart of an episode: the job of each executor over time, a lane for every executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.dag.simulator.dag_arrays import DagWorld, Records
from mirage.duration import MINUTE_S
from mirage.job_state import Floats, Ints
from mirage.report.axes import Axis, Frame, ticks
from mirage.report.svg import WIDE, box, drawing, element, label, line, number, polyline
from mirage.report.theme import SERIES

HEAD_PX, TOP_PX, BELOW_PX, JOBS_PX = 56.0, 26.0, 30.0, 56.0
LEFT_PX, RIGHT_PX = 84.0, 24.0

LEAST_PX = 0.4
"""Narrower stretches are not drawn; they would be invisible."""

MOST_STRETCHES = 2500
"""Maximum number of stretches drawn per episode; of a longer one the beginning is shown."""


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """The history of an episode.

    Attributes:
        policy: The scheduler of the episode.
        executors: Number of executors of the cluster.
        job: Shape (stretches,), the job that an executor worked for without a break.
        executor: Shape (stretches,).
        begin_s: Shape (stretches,).
        end_s: Shape (stretches,).
        arrival_s: Shape (jobs,).
        done_s: Shape (jobs,), when each job ended.
    """

    policy: str
    executors: int
    job: Ints
    executor: Ints
    begin_s: Floats
    end_s: Floats
    arrival_s: Floats
    done_s: Floats

    @classmethod
    def of(cls, policy: str, world: DagWorld, runs: Records) -> EpisodeLog:
        """Builds the log of an episode from the tasks that ran."""
        job = world.stages.job[runs.stage]
        order = np.lexsort((runs.start_ms, runs.executor))
        job, executor = job[order], runs.executor[order]
        begin_ms, end_ms = runs.start_ms[order], runs.end_ms[order]
        is_new = np.ones(len(order), dtype=np.bool_)
        is_new[1:] = (job[1:] != job[:-1]) | (executor[1:] != executor[:-1]) | (begin_ms[1:] > end_ms[:-1])
        first = np.flatnonzero(is_new)
        done_ms = np.zeros(len(world.jobs), dtype=np.int64)
        np.maximum.at(done_ms, job, end_ms)
        return cls(
            policy,
            int(world.settings[0].executors),
            np.asarray(job[first], dtype=np.int64),
            np.asarray(executor[first], dtype=np.int64),
            begin_ms[first] / 1000,
            np.maximum.reduceat(end_ms, first) / 1000,
            np.asarray(world.jobs.arrival_ms / 1000, dtype=np.float64),
            done_ms / 1000,
        )


def executors_chart(logs: Sequence[EpisodeLog], heading: str, width: float = WIDE) -> str:
    """Draws episodes on one axis of time, each with the number of jobs in the system below.

    Args:
        logs: The same episode under several schedulers.
        heading: Name of the episode.
        width: In pixels.
    """
    whole_s = max(float(log.end_s.max()) for log in logs)
    end_s = min(whole_s, *(_shown_s(log) for log in logs))
    if end_s < whole_s:
        heading += f", the first {end_s / MINUTE_S:.0f} of {whole_s / MINUTE_S:.0f} minutes"
    lane_px = 9.0 if logs[0].executors <= 16 else 3.0
    most = max(int(_in_system(log)[1].max()) for log in logs)
    parts = [
        label("Executors over time, by job", 12, 26, class_="strong", font_size=16),
        label(f"{heading}; jobs get the colours in turn, by order of arrival", 12, 46),
    ]
    y = HEAD_PX
    for log in logs:
        tall = lane_px * log.executors
        parts.append(element("g", *_panel(log, width, end_s, lane_px, most), transform=f"translate(0 {y:g})"))
        y += TOP_PX + tall + JOBS_PX + BELOW_PX + 14
    description = "; ".join(f"{log.policy}: mean {float((log.done_s - log.arrival_s).mean()):.0f} s" for log in logs)
    return drawing(width, y, box(0, 0, width, y, "card"), *parts, describes=f"{heading}. {description}")


def _shown_s(log: EpisodeLog) -> float:
    """Returns the time, in whole minutes, up to which all stretches can be drawn.

    Infinity where the log has at most ``MOST_STRETCHES``.
    """
    if len(log.begin_s) <= MOST_STRETCHES:
        return math.inf
    return max(1.0, float(np.sort(log.begin_s)[MOST_STRETCHES]) // MINUTE_S) * MINUTE_S


def _panel(log: EpisodeLog, width: float, end_s: float, lane_px: float, most: int) -> list[str]:
    time = Axis(0.0, end_s, LEFT_PX, width - RIGHT_PX)
    tall = lane_px * log.executors
    lanes = Frame(time, Axis(-log.executors, 0, TOP_PX + tall, TOP_PX))
    mean_s = float((log.done_s - log.arrival_s).mean())
    at_s, count = _in_system(log)
    jobs = Frame(time, Axis(0, most, lanes.bottom + JOBS_PX, lanes.bottom + 10))
    return [
        label(f"{log.policy}: mean {mean_s:,.0f} s from arrival to end", LEFT_PX, 16, class_="strong"),
        label("executors", LEFT_PX - 8, (lanes.top + lanes.bottom) / 2 + 4, text_anchor="end"),
        *_bars(log, lanes, lane_px),
        label("jobs", LEFT_PX - 8, jobs.bottom - 4, text_anchor="end"),
        label(f"{most}", LEFT_PX - 8, jobs.top + 8, text_anchor="end"),
        *_minutes(jobs),
        polyline(_steps(jobs, at_s, count), "edge"),
    ]


def _bars(log: EpisodeLog, frame: Frame, lane_px: float) -> list[str]:
    """Draws one path per colour: thousands of separate bars would make a large file."""
    paths: list[list[str]] = [[] for _ in range(SERIES)]
    tall = number(lane_px - 1)
    for job, executor, begin_s, end_s in zip(log.job, log.executor, log.begin_s, log.end_s, strict=True):
        left, right = frame.x.clip(begin_s), frame.x.clip(end_s)
        if right - left >= LEAST_PX:
            top = frame.y.place(-float(executor))
            paths[int(job) % SERIES].append(f"M{left:.1f} {top:.1f}h{right - left:.1f}v{tall}H{left:.1f}z")
    return [
        element("path", d="".join(path), class_=f"s{k + 1}", style="stroke:none")
        for k, path in enumerate(paths)
        if path
    ]


def _minutes(frame: Frame) -> list[str]:
    """Draws vertical lines at round numbers of minutes, with their names below."""
    parts = []
    for minute in ticks(0.0, frame.x.high / MINUTE_S, 10):
        x = frame.x.place(minute * MINUTE_S)
        parts.append(line(x, frame.top, x, frame.bottom, "grid"))
        parts.append(label(f"{minute:g} min", x, frame.bottom + 18, text_anchor="middle"))
    return parts


def _in_system(log: EpisodeLog) -> tuple[Floats, Ints]:
    """Returns the times at which the number of jobs in the system changes, and the numbers."""
    at_s = np.concatenate([log.arrival_s, log.done_s])
    change = np.repeat([1, -1], len(log.arrival_s))
    order = np.argsort(at_s, kind="stable")
    return at_s[order], np.cumsum(change[order])


def _steps(frame: Frame, at_s: Floats, count: Ints) -> list[tuple[float, float]]:
    points = [frame.at(0.0, 0.0)]
    for moment_s, before, after in zip(at_s, [0, *count[:-1]], count, strict=True):
        points += [frame.at(float(moment_s), float(before)), frame.at(float(moment_s), float(after))]
    return points
