"""The report of a calibration: its figures and words, and the marks of its charts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mirage.calibration.fidelity.moving_average import MovingAverage
from mirage.calibration.inferred.capacity import Capacity, NodeOutage
from mirage.calibration.mechanism_shares import WaitCauseShares
from mirage.calibration.wait_causes import NODES, ORDER, UNEXPLAINED
from mirage.errors import ConfigurationError
from mirage.report.charts.calibration_charts import nodes_chart, shares_chart, wait_causes_chart, waits_chart
from mirage.report.pages.calibration_page import calibration_page, write_calibration_page
from mirage.report.picture import NARROW, WIDE, text_px
from mirage.report.svg import svg_of
from tests.support.page_markup import headings, paragraphs, tables, tiles
from tests.support.picture_reading import hints_of, texts_of
from tests.support.report_samples import DAY0, calibration

SVG = "{http://www.w3.org/2000/svg}"
DAY = 86_400
SHOWN = calibration()
PAGE = calibration_page(SHOWN, "mirage calibrate jobs.csv", "0.1.0")


def marks(svg: str, tag: str, name: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}{tag}") if one.get("class") == name]


def points(curve: ElementTree.Element) -> list[tuple[float, float]]:
    return [tuple(map(float, point.split(","))) for point in (curve.get("points") or "").split()]  # type: ignore[misc]


def place(instant_s: float) -> float:
    """Horizontal position of an instant of the ten weeks in a wide chart."""
    return 44 + (WIDE - 44 - 10) * (instant_s - DAY0) / (70 * DAY)


# -- words ------------------------------------------------------------------------------------------------------------


def test_the_page_begins_with_its_fidelity() -> None:
    assert paragraphs(PAGE)[0] == (
        "jobs.csv, fitted to jobs submitted 2024-10-04 to 2024-10-31, judged by those of 2024-11-01 to 2024-12-12. "
        "On the judged slice, mean waits over two weeks roughly follow the recorded ones, off by 25.0% (on the "
        "fitted slice: 12.5%); mostly the right jobs wait, with a rank correlation of 0.93 (0.98). The mean wait is "
        "5.01h simulated and 4.00h recorded."
    )
    assert tiles(PAGE) == [
        ("moving average of waits, judged", "25.0%", "mean error; 12.5% fitted, 50.0% with nothing fitted"),
        ("single jobs, judged", "0.93", "rank correlation, 0.92 to 0.94; 0.98 fitted, 0.77 with nothing fitted"),
        ("mean wait, judged", "1.25", "of the recorded, 1.23 to 1.28; 1.12 fitted, 1.50 with nothing fitted"),
    ]


@pytest.mark.parametrize(
    ("mape", "order", "level", "order_words"),
    [
        (0.1, 0.6, "are close to the recorded ones", "mostly the right jobs wait"),
        (0.101, 0.599, "roughly follow the recorded ones", "often the right jobs wait"),
        (0.25, 0.4, "roughly follow the recorded ones", "often the right jobs wait"),
        (0.251, 0.399, "are far from the recorded ones", "which jobs wait is hardly known"),
        (None, None, "cannot be compared with the recorded ones, off by –", "the order of waits cannot be compared"),
    ],
)
def test_words_go_with_the_figures(mape: float | None, order: float | None, level: str, order_words: str) -> None:
    plain, whole, *others = SHOWN.rows
    average = replace(whole.judged.moving_average, mape=mape)
    rank = replace(whole.judged.rank_correlation, value=order)
    judged = replace(whole, judged=replace(whole.judged, moving_average=average, rank_correlation=rank))
    lead = paragraphs(calibration_page(replace(SHOWN, rows=(plain, judged, *others)), "", ""))[0]
    assert level in lead
    assert order_words in lead


def test_every_section_is_there() -> None:
    assert headings(PAGE) == [
        "Waits over time", "Nodes over time", "Waits by nodes and time limit", "By month",
        "What each mechanism explains", "What was found", "What remains unexplained", "How this was made",
    ]  # fmt: skip
    assert "<pre>mirage calibrate jobs.csv</pre>" in PAGE
    assert "Mirage 0.1.0. Times are UTC." in paragraphs(PAGE)
    assert "src=" not in PAGE.replace("xmlns", "")
    assert "href" not in PAGE


def test_the_tables_have_the_figures_of_the_charts() -> None:
    classes, months, shares, facts, causes = tables(PAGE)
    assert classes[4] == ["5-16 nodes, > 24 h", "34", "04:00:00", "06:00:00", "2.00", "0.24", "1.00"]
    assert months[1][:2] == ["2024-11", "144"]
    assert [row[0] for row in shares[1:]] == [
        "nothing fitted", "all mechanisms", "without capacity over time", "without age", "without time between jobs",
        "without weather",
    ]  # fmt: skip
    assert shares[3][1:] == [
        "18.7%", "0.96 (0.95..0.97)", "37.5%", "0.86 (0.84..0.87)", "5.51 h", "4.00 h",
    ]  # fmt: skip
    assert ["between two jobs", "a node needs 15 s", "fitted"] in facts
    assert causes[4] == ["no cause visible in accounts", "20%", "5%", "40%", "6%"]
    assert "38% of the moving average" in paragraphs(PAGE)[-2]


def test_a_page_without_a_floor_states_none() -> None:
    fitted, judged = SHOWN.waited
    page = calibration_page(replace(SHOWN, waited=(fitted, replace(judged, unexplained_moving_average=None))), "", "")
    assert "explained by no mechanism" not in page


def test_a_trace_without_nodes_is_reported() -> None:
    plain, whole, *others = SHOWN.rows
    bare = replace(
        whole, fitted=replace(whole.fitted, busy_nodes=None), judged=replace(whole.judged, busy_nodes=None)
    )  # fmt: skip
    page = calibration_page(replace(SHOWN, rows=(plain, bare, *others)), "", "")
    assert "The trace does not contain them." in paragraphs(page)


# -- charts -----------------------------------------------------------------------------------------------------------


def test_waits_of_both_slices_stand_on_one_axis_and_the_judged_one_is_marked() -> None:
    svg = svg_of(waits_chart(SHOWN.whole))
    fitted, judged = (points(one) for one in marks(svg, "polyline", "recorded"))
    assert (len(fitted), len(judged)) == (15, 29), "windows of two weeks in four weeks and in six"
    assert fitted[0][0] == pytest.approx(place(DAY0 + 7 * DAY), abs=0.01)
    assert fitted[-1][0] == pytest.approx(place(DAY0 + 21 * DAY), abs=0.01)
    assert judged[0][0] == pytest.approx(place(DAY0 + 35 * DAY), abs=0.01)
    simulated = [points(one) for one in marks(svg, "polyline", "simulated")]
    bottom = 254 - 30
    for window, (_, low), (_, high) in zip(SHOWN.whole.judged.moving_average.windows, judged, simulated[1]):
        assert (bottom - high) / (bottom - low) == pytest.approx(
            window.simulated_wait_s / window.recorded_wait_s, abs=0.01
        )
    (band,) = marks(svg, "rect", "judged-band")
    assert float(band.get("x", 0)) == pytest.approx(place(DAY0 + 28 * DAY), abs=0.01)
    assert float(band.get("x", 0)) + float(band.get("width", 0)) == pytest.approx(WIDE - 10, abs=0.02)
    words = [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert words.index("fitted to") < words.index("judged by")


def test_slices_without_a_window_are_reported() -> None:
    none = MovingAverage(14 * DAY, DAY, 20, (), 3, 0, None, None, None)
    row = SHOWN.whole
    bare = replace(
        row, fitted=replace(row.fitted, moving_average=none), judged=replace(row.judged, moving_average=none)
    )
    svg = svg_of(waits_chart(bare, NARROW))
    assert "nothing to draw: no window has enough jobs" in svg
    assert "no window on the slice that it was judged by" in svg
    half = svg_of(waits_chart(replace(row, judged=bare.judged)))
    assert len(marks(half, "polyline", "recorded")) == 1


def test_the_capacity_is_a_line_of_steps_over_the_nodes_in_use() -> None:
    times_s = DAY0 + np.array([-1, 7, 35, 90]) * DAY
    capacity = Capacity(times_s, np.array([20, 10, 40, 99]))
    gone = [NodeOutage(DAY0 + 7 * DAY, DAY0 + 9 * DAY, 3, 1), NodeOutage(DAY0 - 9 * DAY, DAY0 - 8 * DAY, 3, 1)]
    drawn = nodes_chart(SHOWN.whole, capacity, gone)
    panel = svg_of(drawn)
    (steps,) = marks(panel, "polyline", "capacity")
    found = points(steps)
    instants = (DAY0, DAY0 + 7 * DAY, DAY0 + 7 * DAY, DAY0 + 35 * DAY, DAY0 + 35 * DAY, DAY0 + 70 * DAY)
    assert [x for x, _ in found] == pytest.approx([place(one) for one in instants], abs=0.01)
    heights = [254 - 30 - y for _, y in found]
    assert [one / heights[0] for one in heights] == pytest.approx([1, 1, 0.5, 0.5, 2, 2], abs=0.01)
    (band,) = marks(panel, "rect", "gap-band")
    assert float(band.get("x", 0)) == pytest.approx(place(DAY0 + 7 * DAY), abs=0.01)
    assert float(band.get("width", 0)) == pytest.approx(place(DAY0 + 2 * DAY) - 44, abs=0.02)
    assert drawn.description.endswith("the capacity is 10 to 40 nodes, with 1 outages.")
    assert len(marks(panel, "polyline", "simulated fine")) == 2


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_bars_are_as_long_as_their_figures(width: float) -> None:
    rows = SHOWN.rows
    svg = svg_of(shares_chart(rows, [one.name for one in rows], width))
    bars = [float(one.get("width", 0)) for one in marks(svg, "rect", "s3")]
    assert len(bars) == 2 * len(rows)
    errors, orders = bars[: len(rows)], bars[len(rows) :]
    assert [one / errors[0] for one in errors] == pytest.approx([1, 0.5, 0.75, 0.75, 0.5, 0.75], abs=0.01)
    assert orders[0] / orders[1] == pytest.approx(0.77 / 0.93, abs=0.01)
    tops = sorted(float(one.get("y", 0)) for colour in ("s3", "s6") for one in marks(svg, "rect", colour)[: len(rows)])
    assert all(low + 10 <= high for low, high in pairwise(tops)), "bars of 10 pixels do not lie on one another"
    strokes = marks(svg, "line", "interval")
    assert len(strokes) == 2 * len(rows), "both slices of the sample have intervals, of the correlation alone"
    words = [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert words.count("weather_s") == (1 if width == WIDE else 2)
    assert words.count("37.5%") == words.count("18.7%") == 3


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_line_of_all_mechanisms_crosses_no_figure(width: float) -> None:
    rows = [replace(SHOWN.whole, name="without age"), *SHOWN.rows]
    whole = ElementTree.fromstring(svg_of(shares_chart(rows, [one.name for one in rows], width)))
    figures = re.compile(r"\d+\.\d%?|[01]\.\d\d")
    crossed, checked = [], 0
    for group in (whole, *whole.iter(f"{SVG}g")):
        for limit in (one for one in group.findall(f"{SVG}line") if one.get("class") == "limit"):
            at = float(limit.get("x1", 0))
            for text in group.findall(f"{SVG}text"):
                if text.get("class") == "halo" and figures.fullmatch(text.text or ""):
                    begin = float(text.get("x", 0))
                    checked += 1
                    crossed += [text.text] if begin <= at <= begin + text_px(text.text or "") else []
    assert checked > 20
    assert not crossed


def test_a_figure_that_is_not_known_has_no_bar() -> None:
    row = SHOWN.whole
    average, rank = row.judged.moving_average, row.judged.rank_correlation
    none = replace(row.judged, moving_average=replace(average, mape=None), rank_correlation=replace(rank, value=-0.5))
    drawn = shares_chart([replace(row, judged=none)], ["all"])
    panel = svg_of(drawn)
    assert [float(one.get("width", 0)) for one in marks(panel, "rect", "s3")] == [1.5], "below 0: a mark"
    assert drawn.description == "Fidelity on the judged slice. all: rank correlation of single jobs -0.50."


def test_intervals_of_both_slices_end_within_the_axis() -> None:
    row, rank = SHOWN.whole, SHOWN.whole.judged.rank_correlation
    fitted = replace(row.fitted, rank_correlation=replace(rank, value=0.8, interval=(0.6, 0.95)))
    judged = replace(row.judged, rank_correlation=replace(rank, value=0.5, interval=(0.4, 0.6)))
    svg = svg_of(shares_chart([replace(row, fitted=fitted, judged=judged)], ["all"]))
    wide, narrow = (float(one.get("x2", 0)) - float(one.get("x1", 0)) for one in marks(svg, "line", "interval"))
    assert wide / narrow == pytest.approx(0.35 / 0.2, abs=0.01)


def test_causes_share_a_bar() -> None:
    drawn = wait_causes_chart(SHOWN.waited, ("a", "b"))
    panel = svg_of(drawn)
    bars = [float(one.get("width", 0)) for one in marks(panel, "rect", "gap")]
    assert [one / bars[0] for one in bars] == pytest.approx([1, 0.25, 2, 0.3], abs=0.01)
    first = [marks(panel, "rect", colour)[0] for colour in ("s6", "s3", "s2", "gap")]
    ends = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in first]
    assert ends[:-1] == pytest.approx([float(one.get("x", 0)) for one in first[1:]], abs=0.02)
    assert "b, recorded: 40% nodes, 0% limit, 20% order, 40% unexplained" in drawn.description


def test_a_cause_that_never_occurs_has_no_share() -> None:
    drawn = wait_causes_chart([WaitCauseShares({NODES: 0.75, ORDER: 0.25}, {UNEXPLAINED: 1.0}, None)], ["a"])
    assert drawn.description == (
        "Causes of waits. a, recorded: 75% nodes, 0% limit, 25% order, 0% unexplained; "
        "a, replayed: 0% nodes, 0% limit, 0% order, 100% unexplained."
    )
    assert hints_of(drawn) == [
        "a, recorded: 75.0% nodes", "a, recorded: 0.0% limit", "a, recorded: 25.0% order",
        "a, recorded: 0.0% unexplained", "a, replayed: 0.0% nodes", "a, replayed: 0.0% limit",
        "a, replayed: 0.0% order", "a, replayed: 100.0% unexplained",
    ]  # fmt: skip
    assert [text for text in texts_of(drawn) if "%" in text] == ["0% unexplained", "100% unexplained"]


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_report_is_a_page(tmp_path: Path) -> None:
    write_calibration_page(SHOWN, str(tmp_path / "a.html"), "mirage calibrate jobs.csv", "0.1.0")
    assert (tmp_path / "a.html").read_text() == PAGE
    with pytest.raises(ConfigurationError, match=r"cannot write /no/such/folder/a\.html: No such file"):
        write_calibration_page(SHOWN, "/no/such/folder/a.html", "", "")
