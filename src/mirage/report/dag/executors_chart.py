"""Chart of an episode: the job of each executor over time, a lane for every executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.dag.simulator.dag_arrays import DagWorld, Records
from mirage.duration import MINUTE_S
from mirage.job_state import Floats, Ints
from mirage.report.axes import Axis, Frame, Tick, columns, ticks
from mirage.report.chart import steps
from mirage.report.picture import MARGIN_PX, WIDE, Bars, Drawn, Label, Picture, Stroke, stacked
from mirage.report.theme import SERIES

TOP_PX, BELOW_PX, JOBS_PX = 2.0, 30.0, 56.0
LEFT_PX, RIGHT_PX = 72.0, 10.0

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


def executors_chart(logs: Sequence[EpisodeLog], heading: str, width: float = WIDE) -> Picture:
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
    panels = [(_name(log), _panel(log, width - 2 * MARGIN_PX, end_s, lane_px, most)) for log in logs]
    note = f"{heading}; jobs get the colours in turn, by order of arrival"
    return stacked(panels, "Executors over time, by job", [note])


def _name(log: EpisodeLog) -> str:
    return f"{log.policy}: mean {float((log.done_s - log.arrival_s).mean()):,.0f} s from arrival to end"


def _shown_s(log: EpisodeLog) -> float:
    """Returns the time, in whole minutes, up to which all stretches can be drawn.

    Infinity where the log has at most ``MOST_STRETCHES``.
    """
    if len(log.begin_s) <= MOST_STRETCHES:
        return math.inf
    return max(1.0, float(np.sort(log.begin_s)[MOST_STRETCHES]) // MINUTE_S) * MINUTE_S


def _panel(log: EpisodeLog, width: float, end_s: float, lane_px: float, most: int) -> Picture:
    time = Axis(0.0, end_s, LEFT_PX, width - RIGHT_PX)
    tall = lane_px * log.executors
    lanes = Frame(time, Axis(-log.executors, 0, TOP_PX + tall, TOP_PX))
    at_s, count = _in_system(log)
    jobs = Frame(time, Axis(0, most, lanes.bottom + JOBS_PX, lanes.bottom + 10))
    path = [jobs.at(*corner) for corner in steps([0.0, *at_s, at_s[-1]], [0, *count])]
    parts: list[Drawn] = [
        Label("executors", LEFT_PX - 8, (lanes.top + lanes.bottom) / 2 + 4, anchor="end"),
        *_bars(log, lanes, lane_px),
        Label("jobs", LEFT_PX - 8, jobs.bottom - 4, anchor="end"),
        Label(f"{most}", LEFT_PX - 8, jobs.top + 8, anchor="end"),
        *columns(jobs, _minutes),
        Stroke(path, "edge"),
    ]
    return Picture(width, jobs.bottom + BELOW_PX, parts, f"{_name(log)}.")


def _bars(log: EpisodeLog, frame: Frame, lane_px: float) -> list[Drawn]:
    """Draws one mark per colour: thousands of separate bars would make a large file."""
    corners: list[list[tuple[float, float, float]]] = [[] for _ in range(SERIES)]
    for job, executor, begin_s, end_s in zip(log.job, log.executor, log.begin_s, log.end_s, strict=True):
        left, right = frame.x.clip(begin_s), frame.x.clip(end_s)
        if right - left >= LEAST_PX:
            corners[int(job) % SERIES].append((left, frame.y.place(-float(executor)), right - left))
    return [Bars(found, lane_px - 1, f"s{k + 1} flat") for k, found in enumerate(corners) if found]


def _minutes(axis: Axis) -> list[Tick]:
    return [(minute * MINUTE_S, f"{minute:g} min") for minute in ticks(0.0, axis.high / MINUTE_S, 10)]


def _in_system(log: EpisodeLog) -> tuple[Floats, Ints]:
    """Returns the times at which the number of jobs in the system changes, and the numbers."""
    at_s = np.concatenate([log.arrival_s, log.done_s])
    change = np.repeat([1, -1], len(log.arrival_s))
    order = np.argsort(at_s, kind="stable")
    return at_s[order], np.cumsum(change[order])
