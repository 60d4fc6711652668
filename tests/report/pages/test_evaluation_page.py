"""The report of an evaluation: its source, rows and points, all within the frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import assess
from mirage.provision.evaluation.frontier import Frontier, Point, PolicySeries, frontiers
from mirage.report.charts.frontier_chart import frontier_chart
from mirage.report.pages.evaluation_page import draw_frontiers, evaluation_page, evaluation_picture
from mirage.report.picture import NARROW, WIDE, text_px
from mirage.report.svg import svg_file, svg_of
from tests.support.page_markup import headings, paragraphs, tables
from tests.support.report_samples import PROVENANCE, evaluation

SVG = "{http://www.w3.org/2000/svg}"
FOUR = {**PROVENANCE, "windows": 4}
HEAD = ["policy", "interruption, h", "overlap, h", "without interruption", "mean cost", "gap closed"]


def test_the_tables_hold_every_row() -> None:
    page = evaluation_page(evaluation([Cost(1, 1), Cost(5, 1)], windows=4), FOUR)
    every, light, medium, heavy, _ = tables(page)
    assert every[0] == ["policy", "cost ratio", *HEAD[1:4], "mean cost, h", "gap closed"]
    assert every[2] == [
        "average",
        "1:1",
        "6.50 [0.00, 25.62]",
        "1.75 [0.00, 13.54]",
        "50%",
        "8.25 [0.00, 25.88]",
        "23% [-90%, 100%]",
    ]
    assert [row[0] for row in every[1:]] == ["reactive", "average", "lead:4", "what-if", "oracle"] * 2
    assert light[7] == ["average", "5:1", "0.00", "5.00", "100%", "5.00", "-"]
    assert medium[1] == ["reactive", "1:1", "4.00", "0.00", "0%", "4.00", "-"]
    assert heavy[8] == ["lead:4", "5:1", "15.00", "0.00", "0%", "75.00", "-"]
    assert headings(page) == [
        *(f"{load}, links of 1 node" for load in ("All loads", "Light load", "Medium load", "Heavy load")),
        "Against what-if, links of 1 node",
        "How this was made",
    ]
    assert "A ratio at a point is the configured cost" in page


def test_a_load_without_interruptions_has_a_sentence_in_place_of_a_chart() -> None:
    page = evaluation_page(evaluation([Cost(1, 1)], windows=4), FOUR)
    light = evaluation([Cost(1, 1)], windows=1)
    episode = light.trials[1][0].episode
    never = replace(light.trials[1][0], episode=replace(episode, outcome_s=np.minimum(episode.outcome_s, 0)))
    still = evaluation_page(assess({1: (never,)}, light.policies, light.costs), {**FOUR, "windows": 1})
    assert "so there is little to gain and no chart" not in page
    assert page.count('class="place"') == 4
    assert 'class="place"' not in still
    assert paragraphs(still)[1] == (
        "Interruptions are at most 0.00 h on average, so there is little to gain and no chart."
    )


def test_months_and_differences_have_sections() -> None:
    page = evaluation_page(evaluation([Cost(1, 1)]), PROVENANCE)
    assert headings(page)[-3:] == ["Against what-if, links of 1 node", "By month, links of 1 node", "How this was made"]
    against, months = tables(page)[-2:]
    assert against[1] == [
        "reactive", "all", "60", "+6.75 [+5.49, +12.65]", "+7.00 [+5.74, +12.90]", "-0.25 [-1.51, -0.19]", "worse"
    ]  # fmt: skip
    assert {(row[1], row[2]) for row in against[1:]} == {
        ("all", "60"), ("light load", "15"), ("medium load", "15"), ("heavy load", "30"),
        ("2024-10", "28"), ("2024-11", "30"), ("2024-12", "2"),
    }  # fmt: skip
    assert months[1] == ["reactive", "2024-10", "28", "10.75", "0.00", "10.75", "0% [0%, 0%]"]
    one_month = evaluation_page(evaluation([Cost(1, 1)], windows=4), FOUR)
    assert "By month" not in one_month
    assert "2024-10" not in str(tables(one_month))


def test_one_cost_that_is_not_in_hours_is_printed_unchanged() -> None:
    page = evaluation_page(evaluation([Cost(3, 2)], windows=4), FOUR)
    assert tables(page)[0][:3] == [
        HEAD,
        ["reactive", "10.75 [0.00, 29.08]", "0.00 [0.00, 0.00]", "0%", "32.25 [0.00, 87.24]", "0% [0%, 0%]"],
        ["average", "6.50 [0.00, 25.62]", "1.75 [0.00, 13.54]", "50%", "23.00 [0.00, 83.77]", "29% [-75%, 79%]"],
    ]
    assert paragraphs(page)[0] == (
        "jobs.csv under slurm on 76 nodes, 4 windows, 2024-10-04 to 2024-10-07. "
        "Cost: 3 for an hour of interruption, 2 for one of overlap."
    )
    assert "A ratio at a point" not in page


def test_a_page_names_its_source() -> None:
    shown = evaluation([Cost(1, 1), Cost(2, 1), Cost(5, 1)], windows=4)
    shown_text = paragraphs(evaluation_page(shown, FOUR))
    assert shown_text[0] == (
        "jobs.csv under slurm on 76 nodes, 4 windows, 2024-10-04 to 2024-10-07. "
        "Cost of an hour of interruption to one of overlap: 1:1, 2:1 or 5:1."
    )
    assert shown_text[1] == (
        "The grey line is every constant lead; a point below and left of it has lower means than any of them. Bars and "
        "brackets are 95 % intervals, where there are enough windows: where they overlap, the order may be chance. A "
        "ratio at a point is the configured cost of an hour of interruption, in hours of overlap."
    )
    assert shown_text[-1].startswith(
        "Protocol warm, links of a newcomer, hand-over 1, seed 0, Mirage 0.1.0. Confidence intervals: 95 %, from 4 "
    )
    assert "<pre>mirage evaluate data/jobs.csv --nodes 76</pre>" in evaluation_page(shown, FOUR)
    one = paragraphs(evaluation_page(evaluation([Cost(3, 1)], windows=1), {**PROVENANCE, "windows": 1}))
    assert one[0] == (
        "jobs.csv under slurm on 76 nodes, 1 window, 2024-10-04. "
        "Cost in hours of overlap: 3 for an hour of interruption, 1 for one of overlap."
    )


def test_a_picture_names_its_source_too() -> None:
    svg = svg_of(evaluation_picture(evaluation(), PROVENANCE))
    texts = [one.text for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts[:4] == [
        "Interruption against overlap",
        "jobs.csv under slurm on 76 nodes, 60 windows, 2024-10-04 to 2024-12-02",
        "Cost of an hour of interruption to one of overlap: 1:1, 2:1, 5:1 or 10:1.",
        "Links of 1 node",
    ]


def test_the_name_of_a_file_decides_its_kind(tmp_path) -> None:
    shown = evaluation(windows=4)
    draw_frontiers(shown, str(tmp_path / "a.svg"), PROVENANCE)
    draw_frontiers(shown, str(tmp_path / "a.HTML"), PROVENANCE)
    assert (tmp_path / "a.svg").read_text() == svg_file(evaluation_picture(shown, PROVENANCE))
    assert (tmp_path / "a.HTML").read_text() == evaluation_page(shown, PROVENANCE)
    with pytest.raises(ConfigurationError, match=r"cannot write /no/such/folder/a\.svg: No such file"):
        draw_frontiers(shown, "/no/such/folder/a.svg", PROVENANCE)


def texts(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """The box of every text of a chart, as wide as a broad font would make it."""
    found = {}
    for one in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        x, y, wide = float(one.get("x")), float(one.get("y")), text_px(one.text)
        left = {None: x, "middle": x - wide / 2, "end": x - wide}[one.get("text-anchor")]
        found[f"{one.text} at {x},{y}"] = (left, y - 12, left + wide, y + 3)
    return found


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("load", ["all", "light", "medium", "heavy"])
def test_no_label_lies_on_another_or_leaves_the_picture(width: float, load: str) -> None:
    (frontier,) = frontiers(evaluation(), load)
    boxes = texts(svg_of(frontier_chart(frontier, width)))
    assert all(left >= 0 and right <= width + 1 for left, _, right, _ in boxes.values())
    for (a, one), (b, other) in combinations(boxes.items(), 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{a} lies on {b}"


def numbers(svg: str, class_: str, tag: str = "circle") -> list[tuple[float, float]]:
    found = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}{tag}") if one.get("class") == class_]
    return [(float(one.get("cx")), float(one.get("cy"))) for one in found]


POINTS = PolicySeries("what-if", (Point("1:1", 1.0, 4.0), Point("2:1, 5:1", 3.0, 0.0), Point("10:1", 3.04, 0.0)))
LEADS = (Point("0 h", 0.0, 8.0), Point("4 h", 2.0, 4.0), Point("8 h", 3.0, 1.0), Point("24 h", 40.0, 0.0))
FRONTIER = Frontier(2, "all", 12, LEADS, (POINTS,), PolicySeries("oracle", (Point("1:1", 0.5, 0.5),)))


def test_points_lie_where_their_hours_are() -> None:
    svg = svg_of(frontier_chart(FRONTIER))
    assert "means of 12 hand-overs; lower left is best" in svg
    _, *policy = numbers(svg, "s1")  # the first is the legend's
    _, *leads = numbers(svg, "lead-dot")
    assert len(leads) == 3, "a lead far to the right is not drawn"
    (x0, y0), (x4, y4), (x8, y8) = leads
    per_h = (x4 - x0) / 2
    assert (x8 - x0, y4 - y0) == pytest.approx((3 * per_h, (y8 - y0) * 4 / 7), abs=0.05)
    assert policy[0] == pytest.approx((x0 + per_h, y4), abs=0.02)
    assert policy[1][0] == pytest.approx(x8, abs=0.02)
    assert all(x <= WIDE for x, _ in leads)


def test_the_line_of_leads_ends_at_the_frame_with_an_arrow() -> None:
    svg = svg_of(frontier_chart(FRONTIER))
    (line,) = re.findall(r'<polyline points="([^"]*)" class="lead"', svg)
    points = [tuple(map(float, point.split(","))) for point in line.split()]
    (arrow,) = re.findall(r'<polygon points="([^"]*)" class="lead-more"', svg)
    assert points[-1][0] == pytest.approx(WIDE - 10)
    assert arrow.split()[1] == f"{points[-1][0]:g},{points[-1][1]:.2f}".rstrip("0").rstrip("."), "its tip"
    whole = svg_of(frontier_chart(replace(FRONTIER, leads=LEADS[:3])))
    assert "lead-more" not in whole


def test_ratios_stand_at_their_points_and_those_that_lie_together_share_a_label() -> None:
    found = set(re.findall(r">([^<>]*)</text>", svg_of(frontier_chart(FRONTIER))))
    assert {"1:1", "2:1 to 10:1", "reactive", "4 h", "8 h", "what-if", "constant lead", "oracle"} <= found
    assert not {"2:1, 5:1", "10:1", "24 h"} & found
    single = replace(FRONTIER, series=(PolicySeries("average", POINTS.points[:1]),), oracle=None)
    assert "1:1" not in set(re.findall(r">([^<>]*)</text>", svg_of(frontier_chart(single))))


def test_ratios_that_lie_apart_in_one_direction_have_labels_each() -> None:
    for points in (((1.0, 2.0), (6.0, 2.0)), ((3.0, 1.0), (3.0, 5.0))):
        series = PolicySeries("average", tuple(Point(f"{k + 1}:1", *hours) for k, hours in enumerate(points)))
        found = re.findall(
            r">([^<>]*)</text>", svg_of(frontier_chart(replace(FRONTIER, series=(series,), oracle=None)))
        )
        assert {"1:1", "2:1"} <= set(found)
        assert "1:1 to 2:1" not in found


def test_an_interval_that_is_cut_off_is_marked() -> None:
    wide = Point("1:1", 1.0, 4.0, (0.5, 99.0), (1.0, 50.0))
    svg = svg_of(frontier_chart(replace(FRONTIER, series=(PolicySeries("average", (wide,)),))))
    assert len(re.findall(r'<polygon points="[^"]*" class="s1"', svg)) == 2
    narrow = Point("1:1", 1.0, 4.0, (0.5, 1.5), (3.0, 5.0))
    svg = svg_of(frontier_chart(replace(FRONTIER, series=(PolicySeries("average", (narrow,)),))))
    assert re.findall(r'<polygon points="[^"]*" class="s1"', svg) == []
    assert len(re.findall(r'<line[^>]* class="w1"', svg)) == 2


def test_ratios_at_which_a_policy_does_the_same_share_a_point() -> None:
    (frontier,) = frontiers(evaluation([Cost(5, 1), Cost(1, 1), Cost(2, 1)]))
    named = {series.policy: [point.label for point in series.points] for series in frontier.series}
    assert named == {"average": ["1:1, 2:1, 5:1"], "what-if": ["1:1", "2:1", "5:1"]}
    assert [point.label for point in frontier.oracle.points] == ["1:1, 2:1, 5:1"]
    (free,) = frontiers(evaluation([Cost(1, 0), Cost(2, 1)], windows=4))
    assert [point.label for point in free.series[1].points][-1] == "free"
