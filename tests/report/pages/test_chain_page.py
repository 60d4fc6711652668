"""The report of a chain: well-formed, complete, and drawn where things happened."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.provision.chain_record import ChainRun, Decision, LinkRecord
from mirage.provision.link_size import LinkSize
from mirage.report.axes import instant_names, instants_s
from mirage.report.charts.chain_charts import chain_chart, link_chart
from mirage.report.charts.decision_charts import estimate_chart
from mirage.report.pages.chain_page import chain_page
from mirage.report.svg import svg_of
from mirage.report.theme import CHART, LIGHT
from tests.support.page_markup import classes, headings, paragraphs, tables, tiles
from tests.support.report_samples import DAY0, DECISIONS, FACTS, HOUR, LINKS, MANY, RUN, decision, record

SVG = "{http://www.w3.org/2000/svg}"


def as_record(found: Decision) -> dict[str, Any]:
    return {
        "time_s": found.now_s, "link": found.link + 1, "submits": found.submits, "reason": found.reason,
        "estimate": found.estimate, "observed": {"pending_nodes": 5.0},
    }  # fmt: skip


def boxes(svg: str, class_: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}rect") if one.get("class") == class_]


def test_links_gaps_and_overlaps_are_drawn_to_scale() -> None:
    svg = svg_of(link_chart(RUN))
    (gap,), (overlap,) = boxes(svg, "gap-band"), boxes(svg, "overlap-band")
    bars = boxes(svg, "link-b")
    assert len(bars) == 3
    per_hour = float(bars[0].get("width")) / 10
    assert float(gap.get("width")) == pytest.approx(4 * per_hour, abs=0.02)
    assert float(overlap.get("width")) == pytest.approx(2 * per_hour, abs=0.02)
    (ahead,) = boxes(svg, "link-b ahead")
    assert float(ahead.get("width")) == pytest.approx(4 * per_hour, abs=0.02)
    lines = [one.get("class") for one in ElementTree.fromstring(svg).iter(f"{SVG}line")]
    assert (lines.count("held"), lines.count("waiting"), lines.count("now")) == (3, 4, 1)
    assert "+04:00:00" in svg
    assert "−02:00:00" in svg


def test_estimates_are_drawn_and_what_is_not_finite_is_left_out() -> None:
    svg = svg_of(estimate_chart(DECISIONS))
    root = ElementTree.fromstring(svg)
    assert "nan" not in svg
    assert "inf" not in svg
    classes = [one.get("class") for tag in ("polyline", "line") for one in root.iter(f"{SVG}{tag}")]
    assert {name: classes.count(name) for name in ("remaining", "median", "cost-now", "cost-later")} == {
        "remaining": 2, "median": 2, "cost-now": 2, "cost-later": 1,
    }  # fmt: skip
    assert len([one for one in root.iter(f"{SVG}line") if one.get("class") == "submit"]) == 2 * 2
    assert "submits link 2" in svg
    assert "expected cost" not in svg_of(estimate_chart([decision(4, 0, 8, False)]))


def test_the_page_contains_everything() -> None:
    events = [(DAY0, 1, "submitted", "job 40 <now>"), (DAY0 + HOUR, 0, "paused", "it rains")]
    page = chain_page(RUN, {**FACTS, "why": "a & b"}, [as_record(d) for d in DECISIONS], events, "0.1.0")
    for words in (
        "a &amp; b", "4.0 h", "2.0 h", "4.0 node-hours", "Hand-overs", "2 → 3", "1 → 2", "4 of 4 decisions",
        "2 events", "job 40 &lt;now&gt;", "wait p50", "cost now", "pending nodes",
    ):  # fmt: skip
        assert words in page, words
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page), "nothing is fetched"


EVENTS = [(DAY0, 1, "submitted", "job 40"), (DAY0 + HOUR, 0, "paused", "rain")]
PAGE = chain_page(RUN, FACTS, [as_record(d) for d in DECISIONS], EVENTS, "0.1.0")


def test_the_tiles_summarize_the_chain() -> None:
    assert tiles(PAGE) == [
        ("alive", "85.71%", "of the time since the first start"),
        ("interruption", "4.0 h", "longest 4.0 h"),
        ("overlap", "2.0 h", "4.0 node-hours"),
        ("links", "3", "have started"),
    ]
    fresh = chain_page(replace(RUN, links=LINKS[3:], decisions=()), FACTS, [], [], "0.1.0")
    assert tiles(fresh)[0] == ("alive", "–", "of the time since the first start")
    assert tiles(fresh)[1:] == [
        ("interruption", "0 s", "without a link"), ("overlap", "0 s", "0.0 node-hours"),
        ("links", "0", "have started"),
    ]  # fmt: skip


@pytest.mark.parametrize(("lost_s", "words"), [(119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2.0 h")])
def test_a_loss_has_a_readable_unit(lost_s: int, words: str) -> None:
    links = (LINKS[0], replace(LINKS[1], started_s=LINKS[0].ends_s + lost_s))
    run = replace(RUN, links=links, until_s=links[1].ends_s)
    assert tiles(chain_page(run, FACTS, [], [], "0.1.0"))[1] == ("interruption", words, f"longest {words}")


def test_the_tables_hold_every_hand_over_decision_and_event() -> None:
    hand_overs, decisions, log = tables(PAGE)
    assert hand_overs == [
        ["links", "end (UTC)", "interruption", "overlap", "overlap node-hours", ""],
        ["2 → 3", "2024-10-05 02:00", "", "02:00:00", "4.00", ""],
        ["1 → 2", "2024-10-04 12:00", "04:00:00", "", "", ""],
    ]
    assert [[c.replace("n ", "") for c in row[2:4]] for row in classes(PAGE)[:2]] == [
        ["empty", "overlap"], ["gap", "empty"]
    ]  # fmt: skip
    assert decisions[0] == [
        "time (UTC)", "link", "choice", "why", "cost later", "cost now", "wait p05", "wait p50", "wait p95",
        "pending nodes",
    ]  # fmt: skip
    assert decisions[2:] == [
        ["2024-10-04 08:00", "1", "compete", "because", "1", "2", "01:00:00", "02:00:00", "05:33:20", "5"],
        ["2024-10-04 18:00", "2", "wait", "because", "", "", "", "", "", "5"],
        ["2024-10-04 20:00", "2", "compete", "because", "–", "2", "01:00:00", "02:00:00", "∞", "5"],
    ]
    assert log == [
        ["time (UTC)", "link", "what", "detail"],
        ["2024-10-04 00:00", "1", "submitted", "job 40"],
        ["2024-10-04 01:00", "", "paused", "rain"],
    ]


def test_numbers_stand_at_the_right_and_words_at_the_left() -> None:
    rows = classes(PAGE)
    assert rows[2] == ["", "", "", "", *["n"] * 6]
    assert [name.replace("empty", "") for name in rows[-1]] == ["", "", "", ""]


def test_a_hand_over_that_overlaps_and_interrupts_is_both() -> None:
    links = (LINKS[0], replace(LINKS[1], started_s=LINKS[0].ends_s - 2 * HOUR, ready_s=LINKS[0].ends_s + HOUR))
    run = replace(RUN, links=links, until_s=links[1].ends_s)
    page = chain_page(run, FACTS, [], [], "0.1.0")
    assert tiles(page)[1:3] == [("interruption", "60 min", "longest 60 min"), ("overlap", "2.0 h", "4.0 node-hours")]
    assert tables(page)[0][1:] == [["1 → 2", "2024-10-04 12:00", "01:00:00", "02:00:00", "4.00", ""]]
    for svg in (svg_of(link_chart(run)), svg_of(chain_chart({"one": run}))):
        bands = {kind: boxes(svg, f"{kind}-band") or boxes(svg, kind) for kind in ("gap", "overlap")}
        (gap,), (overlap,) = bands.values()
        assert float(overlap.get("width")) == pytest.approx(2 * float(gap.get("width")), rel=0.02)
        assert float(overlap.get("x")) + float(overlap.get("width")) == pytest.approx(float(gap.get("x")), abs=0.02)
    assert svg_of(link_chart(run)).count("+01:00:00") == svg_of(link_chart(run)).count("−02:00:00") == 2


def test_a_hand_over_without_loss_is_neither() -> None:
    links = (LINKS[0], replace(LINKS[1], started_s=LINKS[0].ends_s))
    page = chain_page(replace(RUN, links=links, until_s=links[1].ends_s), FACTS, [], [], "0.1.0")
    assert tables(page)[0][1:] == [["1 → 2", "2024-10-04 12:00", "", "", "", ""]]


def test_an_open_hand_over_is_marked() -> None:
    waiting = replace(RUN, links=(LINKS[0], record(1, 8, -1, -1)), until_s=DAY0 + 15 * HOUR)
    page = chain_page(waiting, FACTS, [], [], "0.1.0")
    assert tables(page)[0][1:] == [["1 → ?", "2024-10-04 12:00", "03:00:00", "", "", "still open"]]
    assert tiles(page)[1] == ("interruption", "3.0 h", "longest 3.0 h")


def test_decisions_to_compete_are_all_listed_and_the_last_thirty_others() -> None:
    decisions = [as_record(decision(k, 0, 9, k == 3)) for k in range(50)]
    page = chain_page(RUN, FACTS, decisions, [], "0.1.0")
    assert "31 of 50 decisions" in page
    listed = tables(page)[1][1:]
    assert [row[2] for row in listed] == ["compete", *["wait"] * 30]
    assert [row[0] for row in listed][:2] == ["2024-10-04 03:00", "2024-10-04 20:00"]


def test_the_words_describe_what_is_shown() -> None:
    assert headings(PAGE) == ["Links", "Hand-overs", "Decisions", "Log"]
    assert paragraphs(PAGE) == [
        "active; policy what-if; Mirage 0.1.0",
        "A row each; times are UTC.",
        "From the end of one job to the start of the next.",
        "Remaining time of the running link, expected wait of the next, and the choice with its reason.",
        "All events.",
    ]
    long = chain_page(MANY, {**FACTS, "state": "done", "why": "the end"}, [], [], "0.1.0")
    assert headings(long) == ["Links", "The whole life", "Hand-overs", "Log"]
    assert paragraphs(long)[0] == "done: the end; policy what-if; Mirage 0.1.0"
    assert paragraphs(long)[1:3] == [
        "The last 14, a row each; times are UTC.",
        "From the first link on. Times are UTC.",
    ]
    assert ">40 links<" in long
    assert "<title>Chain train</title>" in long
    assert len(tables(long)[0]) == 40


def test_a_key_shows_the_marks_of_its_chart() -> None:
    for mark in ('class="waiting"', 'class="held"', 'class="link-b ahead"', 'class="gap-band"', 'class="median"'):
        assert mark in PAGE.split('class="place"')[0] + PAGE.split("<h2>Decisions")[1].split('class="place"')[0]


@pytest.mark.parametrize("links", [(), LINKS[3:], LINKS[:1], MANY.links])
def test_a_page_of_any_chain(links: tuple[LinkRecord, ...]) -> None:
    run = ChainRun(LinkSize(), DAY0, DAY0 + 50 * HOUR, links, ())
    page = chain_page(run, FACTS, [], [], "0.1.0")
    assert ("None has been submitted yet" in page) == (not links)
    assert ("The whole life" in page) == (len(links) == 40)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)


def test_every_colour_and_class_there_is_one_for() -> None:
    page = chain_page(RUN, FACTS, [as_record(d) for d in DECISIONS], [], "0.1.0")
    assert set(re.findall(r"background:var\(--([a-z0-9-]+)\)", page.split("<body>")[1])) <= LIGHT.keys()
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    used = {name for names in re.findall(r'class="([^"]+)"', drawn) for name in names.split()} - {"chart"}
    assert {name for name in used if f".{name} " not in CHART} == set()


@given(st.integers(0, 2 * 10**9), st.integers(1, 6 * 10**8))
def test_instants_are_round_few_and_named_apart(low_s: int, span_s: int) -> None:
    found = instants_s(low_s, low_s + span_s)
    assert len(found) <= 9
    assert all(low_s <= instant_s <= low_s + span_s for instant_s in found)
    assert len(instant_names(found)) == len(found)


def test_names_of_instants() -> None:
    assert instant_names([DAY0, DAY0 + HOUR, DAY0 + 86_400]) == ["Oct 4 00:00", "01:00", "Oct 5 00:00"]
    assert instant_names([DAY0, DAY0 + 86_400]) == ["Oct 4", "Oct 5"]
    assert instants_s(100, 700) == [120, 240, 360, 480, 600]
