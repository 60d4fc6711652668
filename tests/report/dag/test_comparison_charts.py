"""Charts of stage schedulers, read with their axes: intervals, executors, students."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.errors import ConfigurationError
from mirage.report.dag.comparison_charts import (
    MOST_STRETCHES,
    EpisodeLog,
    check_plots_folder,
    executors_chart,
    mean_jct_chart,
)
from mirage.report.dag.distillation_chart import students_chart
from mirage.report.picture import Bars, Dot, Label, Picture, Shape, Stroke
from tests.support.made_up_dag_rows import row
from tests.support.picture_reading import bars, hints_of, label, marks_of, readings, strokes, texts_of


def seconds_at(picture: Picture, above: float = 0.0) -> Any:
    """Reads seconds off the axis of the first panel below a place."""
    names = [
        (line.places[0][0], name)
        for line, name in zip(marks_of(picture), marks_of(picture)[1:])
        if isinstance(line, Stroke) and isinstance(name, Label) and name.anchor == "middle" and name.y > above
    ]
    ticks = [(x, float(re.sub("[^0-9.]", "", str(name.text)))) for x, name in names if name.y == names[0][1].y]
    (first_px, first), *_, (last_px, last) = ticks
    return lambda x: first + (x - first_px) * (last - first) / (last_px - first_px)


COMPARED = DagComparison(
    (
        row("fifo", "50/200", 90.25, mean_jct_low_s=80.0, mean_jct_high_s=110.5),
        row("fair", "50/200", 40.0, mean_jct_low_s=36.0, mean_jct_high_s=43.0),
        row("slow", "50/200", 1234.5, mean_jct_low_s=1000.0, mean_jct_high_s=1500.0),
        row("fair", "5/6", 7.0, mean_jct_low_s=None, mean_jct_high_s=None),
    ),
    (),
)


def test_means_have_rows_by_setting_the_shortest_first() -> None:
    picture = mean_jct_chart(COMPARED, "synthetic jobs, 3 seeds", 700)
    words = texts_of(picture)
    assert words[:2] == [
        "Mean time from a job's arrival to its end", "synthetic jobs, 3 seeds; bars are 95 % intervals over seeds"
    ]  # fmt: skip
    assert [word for word in words if "executors" in word] == ["50 executors, 200 jobs", "5 executors, 6 jobs"]
    rows = [word for word in words if word in ("fifo", "fair", "slow") or re.fullmatch(r"[\d,]+\.?\d? s", word)]
    named = [word for word in rows if word in ("fifo", "fair", "slow") or label_is_strong(picture, word)]
    assert named == ["fair", "40.0 s", "fifo", "90.2 s", "slow", "1,234 s", "fair", "7.0 s"]
    assert picture.description.endswith(
        "50/200 fair: 40.0 s; 50/200 fifo: 90.2 s; 50/200 slow: 1234.5 s 5/6 fair: 7.0 s"
    )
    assert mean_jct_chart(COMPARED).description.startswith("Mean time from a job's arrival to its end: . ")


def label_is_strong(picture: Picture, text: str) -> bool:
    found = [mark for mark in marks_of(picture) if isinstance(mark, Label) and mark.text == text]
    return any(mark.style == "strong" and mark.anchor == "end" for mark in found)


def test_means_and_intervals_are_where_the_axis_has_their_seconds() -> None:
    picture = mean_jct_chart(COMPARED, width=700)
    seconds = seconds_at(picture)
    fair, fifo, single = [mark for mark in marks_of(picture) if isinstance(mark, Dot)]
    assert (seconds(fair.x), seconds(fifo.x)) == pytest.approx((40.0, 90.25), abs=0.01)
    first, second, third = bars(picture, "band")
    assert [(seconds(bar.x), seconds(bar.x + bar.width)) for bar in (first, second)] == [
        pytest.approx((36.0, 43.0), abs=0.01), pytest.approx((80.0, 110.5), abs=0.01)
    ]  # fmt: skip
    assert [bar.y + bar.height / 2 for bar in (first, second, third)] == [fair.y, fifo.y, single.y]
    assert fifo.y - fair.y == 24
    assert hints_of(picture, "band") == ["fair: 40.0 s [36.0, 43.0]", "fifo: 90.2 s [80.0, 110.5]", "fair: 7.0 s "]
    assert third.width == 0, "one episode has no interval"
    (arrow,) = [mark for mark in marks_of(picture) if isinstance(mark, Shape) and mark.style == "lead-more"]
    (leader,) = strokes(picture, "leader")
    tip = max(arrow.places)
    assert tip[1] == leader[0][1] == fifo.y + 24, "a mean beyond three times the best is an arrow"
    assert seconds(tip[0]) == pytest.approx(1.04 * 110.5, abs=0.01)
    assert leader[1][0] == tip[0] - 9
    assert leader[0][0] == pytest.approx(seconds_zero(picture))


def test_no_interval_is_cut_by_the_end_of_the_axis() -> None:
    """The second mean is more than three times the best, but within the interval of the first."""
    means = (("best", 40.0, 36.0, 43.0), ("wide", 110.0, 60.0, 160.0), ("far", 130.0, 90.0, 200.0))
    rows = tuple(row(name, "5/6", s, mean_jct_low_s=low_s, mean_jct_high_s=high_s) for name, s, low_s, high_s in means)
    picture = mean_jct_chart(DagComparison(rows, ()), width=700)
    assert hints_of(picture, "band") == ["best: 40.0 s [36.0, 43.0]", "wide: 110.0 s [60.0, 160.0]"]
    assert len([mark for mark in marks_of(picture) if isinstance(mark, Shape) and mark.style == "lead-more"]) == 1


def seconds_zero(picture: Picture) -> float:
    return min(mark.places[0][0] for mark in marks_of(picture) if isinstance(mark, Stroke) and mark.style == "axis")


LOG = EpisodeLog(
    "fair",
    executors=4,
    job=np.array([0, 1, 0, 9]),
    executor=np.array([0, 0, 2, 3]),
    begin_s=np.array([0.0, 60.0, 30.0, 90.0]),
    end_s=np.array([60.0, 120.0, 90.0, 240.0]),
    arrival_s=np.array([0.0, 30.0, 60.0]),
    done_s=np.array([90.0, 120.0, 240.0]),
)


def test_executors_have_lanes_and_jobs_their_colours() -> None:
    picture = executors_chart([LOG], "4 executors", 600)
    (heading, note, name, *_) = texts_of(picture)
    assert (heading, note) == (
        "Executors over time, by job", "4 executors; jobs get 24 colours in turn, by order of arrival"
    )  # fmt: skip
    assert name == "fair: mean 120 s from arrival to end"
    minutes = seconds_at(picture)
    found = {mark.style: mark for mark in marks_of(picture) if isinstance(mark, Bars)}
    assert set(found) == {"s1 flat", "s2 flat", "s2 flat pale"}
    (a, b), (c,), (d,) = (found[style].corners for style in ("s1 flat", "s2 flat", "s2 flat pale"))
    spans = [(minutes(x), minutes(x + wide)) for x, _, wide in (a, b, c, d)]
    assert spans == [pytest.approx(span) for span in ((0, 1), (0.5, 1.5), (1, 2), (1.5, 4))]
    assert [y - a[1] for _, y, _ in (a, b, c, d)] == [0, 18, 0, 27], "nine pixels a lane"
    assert {mark.height for mark in found.values()} == {8}
    assert executors_chart([replace(LOG, executors=17)], "many", 600).height - picture.height == 17 * 3 - 4 * 9


def test_the_number_of_jobs_is_below_on_the_same_axis() -> None:
    picture = executors_chart([LOG], "4 executors", 600)
    minutes = seconds_at(picture)
    (curve,) = strokes(picture, "edge")
    bottom, top = max(y for _, y in curve), label(picture, "3").y - 8
    corners = [(round(minutes(x), 2), round(3 * (bottom - y) / (bottom - top), 2)) for x, y in curve]
    assert [corner for k, corner in enumerate(corners) if k == 0 or corner != corners[k - 1]] == [
        (0, 0), (0, 1), (0.5, 1), (0.5, 2), (1, 2), (1, 3), (1.5, 3), (1.5, 2), (2, 2), (2, 1), (4, 1), (4, 0)
    ]  # fmt: skip
    assert label(picture, "executors").anchor == label(picture, "jobs").anchor == "end"


def test_several_episodes_share_the_axis_of_the_longest() -> None:
    longer = replace(LOG, policy="fifo", end_s=LOG.end_s * 2, done_s=LOG.done_s * 2)
    picture = executors_chart([LOG, longer], "4 executors", 600)
    first, second = strokes(picture, "edge")
    assert first[-1][0] == pytest.approx((first[0][0] + second[-1][0]) / 2)
    assert picture.description.endswith("fair: mean 120 s from arrival to end. fifo: mean 270 s from arrival to end.")


def test_of_a_long_episode_the_beginning_is_drawn() -> None:
    n = MOST_STRETCHES + 100
    begin_s = np.arange(n) * 6.0
    long = replace(
        LOG, job=np.zeros(n, int), executor=np.zeros(n, int), begin_s=begin_s, end_s=begin_s + 5,
        done_s=np.array([90.0, 120.0, 15_600.0]),
    )  # fmt: skip
    picture = executors_chart([long, LOG], "4 executors", 600)
    assert texts_of(picture)[1].startswith("4 executors, the first 250 of 260 minutes; jobs get")
    assert "up to" not in texts_of(executors_chart([LOG], "4 executors", 600))[1]
    assert seconds_at(picture)(max(x for x, _ in strokes(picture, "edge")[0])) == pytest.approx(250)


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    check_plots_folder(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError) as refused:
        check_plots_folder(tmp_path / "file" / "folder")
    assert str(refused.value) == (
        f"cannot write pictures to {tmp_path}/file/folder: Not a directory; name another folder"
    )


def student(method: str, leaves: int, taught: float, own: float, *jct_s: float) -> dict[str, Any]:
    return {
        "method": method, "leaves": leaves, "states_of_teacher": {"stage": taught, "job": 0.1},
        "own_states": {"stage": own, "job": 0.2}, "mean_jct_s": dict(zip(("10/5", "50/200"), jct_s)),
    }  # fmt: skip


STUDENTS = [
    student("cart", 8, 0.5, 0.6, 40.0, 99.0), student("dagger", 4, 0.7, 0.75, 35.0, 90.0),
    student("cart", 32, 0.8, 0.85, 30.0, 80.0),
]  # fmt: skip


def test_students_are_points_of_their_method_at_fidelity_and_time() -> None:
    picture = students_chart(STUDENTS, "decima:/home/someone/weights.npz", 700)
    small, large = readings(picture)
    assert small.curves("w1") == [[(60, 40), (85, 30)], [(50, 40), (80, 30)]]
    assert small.curves("w2") == []
    assert (small.dots("s1"), small.dots("s1 hollow")) == ([(50, 40), (80, 30)], [(60, 40), (85, 30)])
    assert (small.dots("s2"), large.dots("s2 hollow")) == ([(70, 35)], [(75, 90)])
    assert large.dots("s1") == [(50, 99), (80, 80)]
    assert (small.at_x(small.left), small.at_x(small.right)) == (48, 87)
    assert (small.at_y(small.bottom), small.at_y(small.top)) == (28.5, 41.5)
    assert "cart, 32 leaves: 80.0%, 30.0 s" in hints_of(picture, "s1")
    words = texts_of(picture)
    assert words[:3] == [
        "Fidelity and completion times of students",
        "teacher decima:weights.npz; numbers are leaves; filled: states of the teacher, open: own states",
        "10 executors, 5 jobs",
    ]
    assert [words.count(word) for word in ("cart", "dagger", "stages picked as the teacher does")] == [1, 1, 2]
    assert [words.count(leaves) for leaves in ("8", "32")] == [4, 4]
    assert picture.description.endswith(
        "cart of 8 leaves: stage 50.0%; dagger of 4 leaves: stage 70.0%; cart of 32 leaves: stage 80.0% "
    )


def test_equal_students_still_have_an_axis() -> None:
    (frame,) = readings(students_chart([{**STUDENTS[0], "mean_jct_s": {"10/5": 40.0}}], "fair"))
    assert (frame.at_y(frame.bottom), frame.at_y(frame.top)) == pytest.approx((39.88, 40.12))
    perfect = student("cart", 8, 0.9, 1.0, 40.0)
    (frame,) = readings(students_chart([perfect], "fair"))
    assert frame.at_x(frame.right) == 100
