"""The report of fidelity: figures, curves and words of its charts, kinds of files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from mirage.errors import ConfigurationError
from mirage.report.charts.fidelity_charts import levels_chart, moving_average_chart, span_s, wait_classes_chart
from mirage.report.pages.fidelity_page import check_kind, draw_fidelity, fidelity_page, fidelity_svg
from mirage.report.picture import NARROW, WIDE
from mirage.report.svg import svg_of
from tests.support.page_markup import headings, paragraphs, tables, tiles
from tests.support.report_samples import DAY0, judged

SVG = "{http://www.w3.org/2000/svg}"
HOUR, DAY = 3600, 86_400
SHOWN = judged()
NAMES = ("data/jobs.csv", "out/simulated.csv")


def curve(svg: str, name: str) -> list[tuple[float, float]]:
    (found,) = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}polyline") if one.get("class") == name]
    return [tuple(map(float, point.split(","))) for point in found.get("points").split()]


def texts(svg: str) -> list[str]:
    return [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_page_begins_with_the_figures() -> None:
    page = fidelity_page(SHOWN, *NAMES, "mirage trace fidelity jobs.csv")
    assert tiles(page) == [
        ("moving average of waits", "25.0%", "mean error, windows of 14 days"),
        ("mean wait", "1.25", "of the recorded, 1.25 to 1.25"),
        ("single jobs", "0.93", "rank correlation, 0.93 to 0.93"),
        ("starts", "50%", "within an hour of the recorded"),
        ("busy nodes", "39.5%", "mean error, hour by hour"),
    ]
    assert paragraphs(page)[:2] == [
        "simulated.csv compared with jobs.csv: submitted 2024-10-04 to 2024-12-12: 336 jobs compared of 336 recorded.",
        "Off by 25.0% over 57 windows of 14 days (+25.0% in the mean, 25.7% at most).",
    ]
    assert headings(page) == [
        "Mean waits over two weeks", "Busy nodes", "The queue", "Waits of single jobs", "Waits by nodes and time limit",
        "By month", "How this was made",
    ]  # fmt: skip
    classes, months = tables(page)
    assert classes[3] == ["5-16 nodes, ≤ 12 h", "112", "03:57:19", "05:57:19", "2.00", "0.24", "1.00"]
    assert months[3] == ["2024-12", "57", "03:59:28", "05:00:32", "01:01:03", "0.93", "0.93", "3.2"]
    assert "<pre>mirage trace fidelity jobs.csv</pre>" in page


def test_a_page_leaves_out_what_is_not_known() -> None:
    page = fidelity_page(replace(judged(3), busy_nodes=None), *NAMES, "x")
    assert "Busy nodes" not in headings(page)
    assert dict((name, value) for name, value, _ in tiles(page))["moving average of waits"] == "–"
    assert paragraphs(page)[1] == "None: there is no window of 14 days to compare."


def test_curves_stand_at_the_middle_of_their_windows_and_as_high_as_the_waits() -> None:
    svg = svg_of(moving_average_chart(SHOWN.moving_average, (DAY0, DAY0 + 70 * DAY)))
    recorded, simulated = curve(svg, "recorded"), curve(svg, "simulated")
    assert len(recorded) == len(simulated) == 57
    width = WIDE - 44 - 10
    assert recorded[0][0] == pytest.approx(44 + width * 7 / 70, abs=0.01)
    assert recorded[-1][0] == pytest.approx(44 + width * 63 / 70, abs=0.01)
    bottom = 206
    for window, (_, low), (_, high) in zip(SHOWN.moving_average.windows, recorded, simulated):
        assert (bottom - high) / (bottom - low) == pytest.approx(
            window.simulated_wait_s / window.recorded_wait_s, abs=0.01
        )
    assert texts(svg)[:3] == ["mean wait over 14 days, hours", "recorded", "simulated"]


def test_hours_that_share_a_column_are_drawn_as_their_mean() -> None:
    levels = SHOWN.busy_nodes
    span = span_s(SHOWN)
    assert span == (levels.begin_s, levels.begin_s + levels.hours * HOUR)
    svg = svg_of(levels_chart(levels, "busy nodes", span))
    points = curve(svg, "simulated")
    hours = -(-levels.hours // int((WIDE - 54) / 3))
    assert len(points) == -(-levels.hours // hours) > 250
    high = 1.08 * max(
        values[k : k + hours].mean()
        for values in (levels.recorded, levels.simulated)
        for k in range(0, levels.hours, hours)
    )
    wide = (WIDE - 54) / levels.hours
    for k in (0, 7, 100):
        assert points[k][0] == pytest.approx(44 + (k + 0.5) * hours * wide, abs=0.01)
        expected = levels.simulated[k * hours : (k + 1) * hours].mean()
        assert (206 - points[k][1]) / 176 * high == pytest.approx(expected, abs=0.05)


def test_bars_of_a_class_span_the_middle_half_of_its_jobs() -> None:
    svg = svg_of(wait_classes_chart(SHOWN.classes))
    root = ElementTree.fromstring(svg)
    bars = {colour: [b for b in root.iter(f"{SVG}rect") if b.get("class") == colour] for colour in ("s1", "s4")}
    assert [len(found) for found in bars.values()] == [4, 4]
    (hint,) = bars["s4"][2]
    assert hint.text == "5-16 nodes, ≤ 12 h, simulated: 25 % 4.00 h, median 6.00 h, 75 % 8.00 h"
    late, early = float(bars["s4"][2].get("x")), float(bars["s1"][2].get("x"))
    assert late > early
    assert bars["s1"][0].get("x") == bars["s4"][0].get("x")
    shown = texts(svg)
    assert [text for text in shown if text.endswith(" h") and "," in text] == [one.name for one in SHOWN.classes]
    assert [text for text in shown if re.fullmatch(r"0|\d+ (min|h|d)", text)] == ["0", "1 min", "10 min", "1 h", "6 h"]


def test_a_class_that_never_waits_is_a_mark_at_zero() -> None:
    still = tuple(replace(SHOWN.whole, recorded_quantiles_s=(0.0,) * 5, simulated_quantiles_s=(0.0,) * 5) for _ in "a")
    svg = svg_of(wait_classes_chart(still, NARROW))
    assert "all jobs" in texts(svg)
    assert 'class="median-tick"' not in svg


def test_levels_of_one_hour_have_the_axis_of_their_days() -> None:
    short = judged(70, from_s=DAY0, until_s=DAY0 + HOUR)
    assert short.busy_nodes.hours == 1
    assert span_s(short) == (DAY0, DAY0 + HOUR)
    day = replace(short, until_s=DAY0 + DAY)
    assert span_s(day) == (DAY0, DAY0 + DAY)


def test_the_chart_reports_that_there_is_no_window() -> None:
    shown = judged(3)
    svg = svg_of(moving_average_chart(shown.moving_average, span_s(shown), NARROW))
    assert "nothing to draw: no window has enough jobs" in texts(svg)


def test_a_picture_holds_every_chart_and_names_its_source() -> None:
    found = texts(fidelity_svg(SHOWN, *NAMES))
    assert found[:2] == [
        "Simulated and recorded",
        "simulated.csv compared with jobs.csv, submitted 2024-10-04 to 2024-12-12, 336 jobs",
    ]
    names = ["mean wait over 14 days, hours", "busy nodes", "waiting jobs", "waits by class"]
    assert [text for text in found if text in names] == names
    tops = re.findall(r"translate\(14 (\d+)\)", fidelity_svg(SHOWN, *NAMES))
    assert tops[:4] == [str(78 + k * (236 + 20)) for k in range(4)]


def test_texts_are_anchored_as_svg_knows_it() -> None:
    for text in (fidelity_svg(SHOWN, *NAMES), fidelity_page(SHOWN, *NAMES, "x")):
        assert set(re.findall(r'text-anchor="([^"]*)"', text)) <= {"start", "middle", "end"}


def test_the_name_of_a_file_decides_its_kind(tmp_path) -> None:
    draw_fidelity(SHOWN, str(tmp_path / "a.svg"), *NAMES, "x")
    draw_fidelity(SHOWN, str(tmp_path / "a.HTML"), *NAMES, "x")
    assert (tmp_path / "a.svg").read_text() == fidelity_svg(SHOWN, *NAMES)
    assert (tmp_path / "a.HTML").read_text() == fidelity_page(SHOWN, *NAMES, "x")
    with pytest.raises(ConfigurationError, match=r"cannot draw into a\.png: its name must end in \.svg or \.html"):
        check_kind("a.png")
    with pytest.raises(ConfigurationError, match=r"cannot write /no/such/folder/a\.svg: No such file"):
        draw_fidelity(SHOWN, "/no/such/folder/a.svg", *NAMES, "x")
