"""Charts of a comparison of stage schedulers: completion times, and executors over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_comparison_rows import ComparisonRow
from mirage.dag.compare.dag_trial import Scene
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_arrays import DagWorld
from mirage.duration import MINUTE_S
from mirage.errors import ConfigurationError
from mirage.kernel.record_arrays import Records
from mirage.report.axes import Axis, Frame, Tick, columns, ticks
from mirage.report.chart import steps
from mirage.report.picture import (
    MARGIN_PX,
    WIDE,
    Bar,
    Bars,
    Dot,
    Drawn,
    Label,
    Picture,
    Shape,
    Stroke,
    line,
    stacked,
    text_px,
)
from mirage.report.picture_file import write_picture
from mirage.report.theme import SERIES

ROW_PX, TOP_PX, BOTTOM_PX = 24.0, 6.0, 28.0

WORST = 3.0
"""Means above this multiple of the best are outside the frame and given only as a number."""


def mean_jct_chart(comparison: DagComparison, note: str = "", width: float = WIDE) -> Picture:
    """Draws mean completion times of all schedulers in all settings, the shortest first.

    Args:
        comparison: The comparison.
        note: A line about the episodes.
        width: In pixels.
    """
    panels = []
    for setting in dict.fromkeys(row.setting for row in comparison.rows):
        rows = sorted((r for r in comparison.rows if r.setting == setting), key=lambda row: row.mean_jct_s)
        executors, jobs = setting.split("/")
        panels.append((f"{executors} executors, {jobs} jobs", _setting_panel(rows, width - 2 * MARGIN_PX)))
    heading = "Mean time from a job's arrival to its end"
    return stacked(panels, heading, [f"{note}; bars are 95 % intervals over seeds" if note else ""])


def _setting_panel(rows: Sequence[ComparisonRow], width: float) -> Picture:
    """Draws a setting: a row per scheduler, its name at the left and its mean at the right."""
    names_px = max(text_px(row.policy) for row in rows) + 12
    numbers_px = max(text_px(_seconds(row.mean_jct_s)) for row in rows) + 12
    most = WORST * rows[0].mean_jct_s
    high = 1.04 * max(_interval(row)[1] for row in rows if row.mean_jct_s <= most)
    bottom = TOP_PX + ROW_PX * len(rows)
    frame = Frame(Axis(0.0, high, names_px, width - numbers_px), Axis(-len(rows), 0, bottom, TOP_PX))
    parts = columns(frame, lambda axis: [(value, f"{value:,.6g} s") for value in ticks(0.0, axis.high, 8)])
    for k, row in enumerate(rows):
        parts += _row(row, frame, frame.y.place(-(k + 0.5)), width, is_outside=row.mean_jct_s > most)
    description = "; ".join(f"{row.setting} {row.policy}: {row.mean_jct_s:.1f} s" for row in rows)
    return Picture(width, bottom + BOTTOM_PX, parts, description)


def _row(row: ComparisonRow, frame: Frame, y: float, width: float, *, is_outside: bool) -> list[Drawn]:
    low_s, high_s = _interval(row)
    hint = f"{row.policy}: {row.mean_jct_s:.1f} s " + (f"[{low_s:.1f}, {high_s:.1f}]" if low_s < high_s else "")
    parts: list[Drawn] = [
        Label(row.policy, 0, y + 4, style="ink"),
        Label(_seconds(row.mean_jct_s), width, y + 4, anchor="end", style="strong"),
    ]
    if is_outside:
        corners = [(frame.right - 9, y - 5), (frame.right, y), (frame.right - 9, y + 5)]
        return [*parts, line(frame.left, y, frame.right - 9, y, "leader"), Shape(corners, "lead-more")]
    low, high = frame.x.clip(low_s), frame.x.clip(high_s)
    parts.append(Bar(low, y - 5, high - low, 10, "band", hint, rx=2))
    parts.append(Dot(frame.x.place(row.mean_jct_s), y, 4, "s1"))
    return parts


def _interval(row: ComparisonRow) -> tuple[float, float]:
    """Returns the interval of a mean; for one episode, the mean itself."""
    if row.mean_jct_low_s is None or row.mean_jct_high_s is None:
        return row.mean_jct_s, row.mean_jct_s
    return row.mean_jct_low_s, row.mean_jct_high_s


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value < 1000 else f"{value:,.0f} s"


_LANES_TOP_PX, _BELOW_PX, _JOBS_PX = 2.0, 30.0, 56.0
_LEFT_PX, _RIGHT_PX = 72.0, 10.0

_JOB_STYLES = tuple(f"s{k + 1} flat{shade}" for shade in ("", " pale", " paler") for k in range(SERIES))

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
    panels = [(_name(log), _episode_panel(log, width - 2 * MARGIN_PX, end_s, lane_px, most)) for log in logs]
    note = f"{heading}; jobs get {len(_JOB_STYLES)} colours in turn, by order of arrival"
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


def _episode_panel(log: EpisodeLog, width: float, end_s: float, lane_px: float, most: int) -> Picture:
    time = Axis(0.0, end_s, _LEFT_PX, width - _RIGHT_PX)
    tall = lane_px * log.executors
    lanes = Frame(time, Axis(-log.executors, 0, _LANES_TOP_PX + tall, _LANES_TOP_PX))
    at_s, count = _in_system(log)
    jobs = Frame(time, Axis(0, most, lanes.bottom + _JOBS_PX, lanes.bottom + 10))
    path = [jobs.at(*corner) for corner in steps([0.0, *at_s, at_s[-1]], [0, *count])]
    parts: list[Drawn] = [
        Label("executors", _LEFT_PX - 8, (lanes.top + lanes.bottom) / 2 + 4, anchor="end"),
        *_bars(log, lanes, lane_px),
        Label("jobs", _LEFT_PX - 8, jobs.bottom - 4, anchor="end"),
        Label(f"{most}", _LEFT_PX - 8, jobs.top + 8, anchor="end"),
        *columns(jobs, _minutes),
        Stroke(path, "edge"),
    ]
    return Picture(width, jobs.bottom + _BELOW_PX, parts, f"{_name(log)}.")


def _bars(log: EpisodeLog, frame: Frame, lane_px: float) -> list[Drawn]:
    """Draws one mark per colour: thousands of separate bars would make a large file."""
    corners: list[list[tuple[float, float, float]]] = [[] for _ in _JOB_STYLES]
    for job, executor, begin_s, end_s in zip(log.job, log.executor, log.begin_s, log.end_s, strict=True):
        left, right = frame.x.clip(begin_s), frame.x.clip(end_s)
        if right - left >= LEAST_PX:
            corners[int(job) % len(_JOB_STYLES)].append((left, frame.y.place(-float(executor)), right - left))
    return [Bars(found, lane_px - 1, style) for style, found in zip(_JOB_STYLES, corners, strict=True) if found]


def _minutes(axis: Axis) -> list[Tick]:
    return [(minute * MINUTE_S, f"{minute:g} min") for minute in ticks(0.0, axis.high / MINUTE_S, 10)]


def _in_system(log: EpisodeLog) -> tuple[Floats, Ints]:
    """Returns the times at which the number of jobs in the system changes, and the numbers."""
    at_s = np.concatenate([log.arrival_s, log.done_s])
    change = np.repeat([1, -1], len(log.arrival_s))
    order = np.argsort(at_s, kind="stable")
    return at_s[order], np.cumsum(change[order])


SHOWN = 2
"""Number of schedulers whose episode is drawn: the first ones."""


def check_plots_folder(folder: Path) -> None:
    """Creates the folder before the work.

    Raises:
        ConfigurationError: It cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write pictures to {folder}: {error.strerror}; name another folder") from error


def write_plots(
    folder: Path,
    comparison: DagComparison,
    scene: Scene,
    settings: Sequence[EpisodeSetting],
    seeds: Sequence[int],
    jobs: str,
) -> list[Path]:
    """Writes ``dag-jct.svg``, and ``dag-executors-N-JOBS.svg`` for each setting.

    The latter show the first episode of a setting under two schedulers.

    Args:
        folder: The folder for the pictures.
        comparison: The comparison.
        scene: The kinds of jobs, the cluster, and the schedulers; episodes of the first schedulers are drawn.
        settings: Sizes of cluster and episode.
        seeds: Seeds; the episode of the first one is drawn.
        jobs: Description of the jobs.

    Raises:
        ConfigurationError: A picture cannot be written.
    """
    note = f"{jobs}, {len(seeds)} seed{'s'[: len(seeds) > 1]}"
    pictures = {"dag-jct.svg": mean_jct_chart(comparison, note)}
    for setting in settings:
        logs = []
        for scheduler in scene.schedulers[:SHOWN]:
            played = scene.episode(setting, seeds[0], log=True)
            played.run(scheduler.decider, scheduler.parameters_for(seeds[0]))
            logs.append(EpisodeLog.of(scheduler.name, played.world, played.runs))
        heading = f"{setting.executors} executors, {setting.jobs} jobs, seed {seeds[0]}"
        pictures[f"dag-executors-{setting.executors}-{setting.jobs}.svg"] = executors_chart(logs, heading)
    for name, drawn in pictures.items():
        write_picture(drawn, folder / name)
    return [folder / name for name in pictures]
