"""Charts of schedulers, read with their own axes: use, completion times, and jobs on GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.report.chart import MOST_POINTS
from mirage.report.picture import Bar, Label, Stroke
from mirage.report.schedule.gpu_charts import UseOverTime, gantt_chart, jct_chart, use_by_type, use_chart
from mirage.schedule.compare.gpu_trial import GpuSetting, play
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload
from tests.support.picture_reading import hints_of, label, marks_of, readings, texts_of

CLUSTER = GpuCluster((ServerGroup("old", "t4", 2, 2), ServerGroup("new", "a100", 1, 4)))
HOUR = 3600.0


def log_of(cluster: GpuCluster, submit_s: list[float], gpus: list[int], run_s: list[float]) -> GpuLog:
    jobs = GpuJobs.linear(submit_s, gpus, run_s, name=tuple(f"j{k}" for k in range(len(gpus))))
    _, log = play(GpuSetting(cluster), GpuWorkload("by hand", jobs, no_profiles(cluster)), SchedulerText.of("fifo"))
    return log


@pytest.fixture(scope="module")
def log() -> GpuLog:
    """Four GPUs for 1 h, one for 2 h, two for half an hour, and four that wait for the first."""
    return log_of(CLUSTER, [0, 0, 0, 0], [4, 1, 2, 4], [HOUR, 2 * HOUR, HOUR / 2, 3 * HOUR])


USES = (
    UseOverTime("a100", 8, np.array([0.0, 1800.0, 7200.0, 36_000.0]), np.array([2, 8, 5, 0])),
    UseOverTime("t4", 4, np.array([0.0, 36_000.0]), np.array([3, 0])),
)


def test_gpus_in_use_are_steps_under_their_totals() -> None:
    picture = use_chart(USES, 600)
    (frame,) = readings(picture)
    assert frame.curves("w1") == [[(0, 2), (0.5, 2), (0.5, 8), (2, 8), (2, 5), (10, 5)]]
    assert frame.curves("w2") == [[(0, 3), (10, 3)]]
    assert frame.levels("limit") == [8, 4]
    assert (frame.at_x(frame.right), frame.at_y(frame.top)) == (10, 8.4)
    assert frame.below[:2] == ["0 h", "2 h"]
    assert texts_of(picture)[0] == "GPUs held"
    mean = (2 * 0.5 + 8 * 1.5 + 5 * 8) / 10 / 8
    assert picture.description == f"a100: mean {mean:.0%} of 8 GPUs; t4: mean 75% of 4 GPUs"
    assert UseOverTime("none", 8, np.array([0.0]), np.array([0])).mean_share == 0
    assert readings(use_chart((USES[0], replace(USES[1], gpus=8))))[0].levels("limit") == [8]


def test_many_steps_are_drawn_as_means_of_the_same_area() -> None:
    n = 5 * MOST_POINTS
    held = np.random.default_rng(3).integers(0, 9, n)
    many = UseOverTime("a100", 8, np.arange(n) * 60.0, held)
    (frame,) = readings(use_chart([many]))
    (curve,) = frame.curves("w1")
    assert len(curve) == 2 * (MOST_POINTS - 1)
    area = sum((right - left) * value for (left, value), (right, _) in zip(curve[::2], curve[1::2]))
    assert area == pytest.approx(held[:-1].sum() / 60, rel=1e-4)
    exact = replace(many, time_s=many.time_s[:MOST_POINTS], held=held[:MOST_POINTS])
    assert len(readings(use_chart([exact]))[0].curves("w1")[0]) == 2 * (MOST_POINTS - 1)


def test_completion_times_are_shares_up_to_the_99th_percentile() -> None:
    jct_s = {"fifo": np.array([1, 2, 4, 8]) * HOUR, "sjf": np.array([2.0, 3.0]) * HOUR}
    picture = jct_chart(jct_s, 600)
    (frame,) = readings(picture)
    (fifo,), (sjf,) = frame.curves("w1"), frame.curves("w2")
    assert max(share for hours, share in fifo if hours < 2) == 25
    assert max(share for hours, share in fifo if hours < 4) == 50
    assert max(share for hours, share in sjf if hours < 3) == 50
    assert frame.at_x(frame.right) == pytest.approx(np.percentile([1, 2, 4, 8], 99))
    assert (frame.names[0], frame.names[-1], frame.at_y(frame.top)) == ("0 %", "100 %", 100)
    assert texts_of(picture)[0] == "jobs done within"
    assert picture.description == "fifo: median 3.00 h; sjf: median 2.50 h"


def test_every_job_is_a_bar_on_its_gpus(log: GpuLog) -> None:
    picture = gantt_chart(log, 600)
    names = [mark for mark in marks_of(picture) if isinstance(mark, Label) and mark.anchor == "end"]
    assert [str(name.text) for name in names] == ["old-1", "old-2", "new-1"]
    tops = [name.y - 9 for name in names]
    assert [top - tops[0] for top in tops] == [0, 12, 24], "six pixels a GPU"
    ticks = {
        str(mark.text): mark.x for mark in marks_of(picture) if isinstance(mark, Label) and mark.anchor == "middle"
    }
    end_h = log.now_s / HOUR
    left = min(mark.places[0][0] for mark in marks_of(picture) if isinstance(mark, Stroke))
    assert left == ticks["0 h"]
    hour_px = (600 - 24 - left) / end_h
    assert ticks["1 h"] == pytest.approx(left + hour_px)
    bars = [mark for mark in marks_of(picture) if isinstance(mark, Bar)]
    assert hints_of(picture) == [bar.hint for bar in bars]
    assert [(bar.hint, bar.style, bar.height, bar.y - tops[0]) for bar in bars] == [
        ("j0: 2 GPUs, 0.00 to 1.00 h", "s3", 11, 0.5),
        ("j3: 2 GPUs, 1.00 to 4.00 h", "s3", 11, 0.5),
        ("j0: 2 GPUs, 0.00 to 1.00 h", "s3", 11, 12.5),
        ("j3: 2 GPUs, 1.00 to 4.00 h", "s3", 11, 12.5),
        ("j1: 1 GPU, 0.00 to 2.00 h", "s1", 5, 24.5),
        ("j2: 2 GPUs, 0.00 to 0.50 h", "s2", 11, 30.5),
    ]
    begins = [(bar.x - left) / hour_px for bar in bars]
    assert begins == pytest.approx([0, 1, 0, 1, 0, 0])
    assert [bar.width / hour_px for bar in bars] == pytest.approx([1, 3, 1, 3, 2, 0.5])
    assert end_h == 4
    assert picture.description == "4 stretches of 4 jobs on 3 of 3 servers."
    assert picture.height == 26 + 8 * 6 + 30


def test_of_a_large_cluster_the_first_servers_are_drawn() -> None:
    cluster = GpuCluster((ServerGroup("node", "a100", 40, 8),))
    large = log_of(cluster, [0, 0], [8, 8], [HOUR, HOUR])
    picture = gantt_chart(large, 600)
    assert picture.description == "2 stretches of 2 jobs on 16 of 40 servers."
    assert label(picture, "node-16").y - label(picture, "node-15").y == 8 * 3, "three pixels a GPU"
    assert "node-17" not in texts_of(picture)
    medium = gantt_chart(log_of(GpuCluster((ServerGroup("node", "a100", 8, 8),)), [0], [8], [HOUR]), 600)
    assert label(medium, "node-8").y - label(medium, "node-7").y == 8 * 6
    wide = gantt_chart(log_of(GpuCluster((ServerGroup("node", "a100", 2, 200),)), [0], [8], [HOUR]), 600)
    assert wide.description == "1 stretches of 1 jobs on 1 of 2 servers."
    one = gantt_chart(log_of(GpuCluster((ServerGroup("node", "a100", 2, 128),)), [0, 0], [128, 99], [HOUR, HOUR]), 600)
    assert one.description == "1 stretches of 1 jobs on 1 of 2 servers.", "the other job is on the other server"


def test_a_kind_has_the_colour_of_its_curve() -> None:
    skips = log_of(CLUSTER, [0, 0], [4, 1], [HOUR, 2 * HOUR])
    bars = [mark for mark in marks_of(gantt_chart(skips, 600)) if isinstance(mark, Bar)]
    assert {(bar.hint.partition(":")[0], bar.style) for bar in bars} == {("j0", "s2"), ("j1", "s1")}


def test_use_by_type_counts_all_servers_of_a_type(log: GpuLog) -> None:
    t4, a100 = use_by_type(log)
    assert (t4.gpus, a100.gpus) == (4, 4)
    assert (t4.time_s.tolist(), t4.held.tolist()) == ([0, HOUR, 4 * HOUR], [4, 4, 0])
    assert (a100.time_s.tolist(), a100.held.tolist()) == ([0, HOUR / 2, 2 * HOUR, 4 * HOUR], [3, 1, 0, 0])
    assert (t4.mean_share, a100.mean_share) == (1, (3 * 0.5 + 1 * 1.5) / 16)
