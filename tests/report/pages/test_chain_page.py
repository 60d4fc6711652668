"""The report of a chain: well-formed, complete, and drawn where things happened."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import DAY0, DECISIONS, FACTS, HOUR, LINKS, MANY, RUN, decision

from mirage.provision.chain import Link
from mirage.provision.chain_record import ChainRun, Decision, LinkRecord
from mirage.report.axes import instant_names, instants_s
from mirage.report.charts.estimate import estimate_chart
from mirage.report.charts.links import link_chart
from mirage.report.pages.chain import chain_page
from mirage.report.theme import CHART, LIGHT

SVG = "{http://www.w3.org/2000/svg}"


def told(found: Decision) -> dict[str, Any]:
    return {
        "time_s": found.now_s, "link": found.link + 1, "submits": found.submits, "reason": found.reason,
        "estimate": found.estimate, "saw": {"pending_nodes": 5.0},
    }  # fmt: skip


def boxes(svg: str, class_: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg).iter(f"{SVG}rect") if one.get("class") == class_]


def test_links_gaps_and_overlaps_are_drawn_to_scale() -> None:
    svg = link_chart(RUN)
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
    svg = estimate_chart(DECISIONS)
    root = ElementTree.fromstring(svg)
    assert "nan" not in svg
    assert "inf" not in svg
    classes = [one.get("class") for one in root.iter(f"{SVG}polyline")]
    assert {name: classes.count(name) for name in ("remaining", "median", "cost-now", "cost-later")} == {
        "remaining": 2, "median": 2, "cost-now": 2, "cost-later": 1,
    }  # fmt: skip
    assert len([one for one in root.iter(f"{SVG}line") if one.get("class") == "submit"]) == 2 * 2
    assert "asks for link 2" in svg
    assert "expected cost" not in estimate_chart([decision(4, 0, 8, False)])


def test_the_page_says_everything() -> None:
    events = [(DAY0, 1, "submitted", "job 40 <now>"), (DAY0 + HOUR, 0, "paused", "it rains")]
    page = chain_page(RUN, {**FACTS, "why": "a & b"}, [told(d) for d in DECISIONS], events, "0.1.0")
    for words in (
        "a &amp; b", "4.0 h", "2.0 h", "4.0 node-hours", "Hand-overs", "2 → 3", "1 → 2", "4 of 4 decisions",
        "2 events", "job 40 &lt;now&gt;", "wait p50", "cost now", "pending nodes",
    ):  # fmt: skip
        assert words in page, words
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page), "nothing is fetched"


def test_every_hand_over_says_in_its_own_column_what_was_lost_and_what_was_held_twice() -> None:
    """Rows by heading: an interruption under "interruption", an overlap and its node-hours under theirs."""
    tables = re.findall(r"<table.*?</table>", chain_page(RUN, FACTS, [], [], "0.1.0"), re.DOTALL)
    (found,) = (ElementTree.fromstring(one.replace("&nbsp;", "")) for one in tables if "interruption" in one)
    headings = ["".join(cell.itertext()) for cell in found.iter("th")]
    rows = [list(row.iter("td")) for row in found.iter("tr")]
    told = [dict(zip(headings, ("".join(cell.itertext()) for cell in row))) for row in rows if row]
    second, first = told  # the newest first
    assert (first["links"], first["end (UTC)"]) == ("1 → 2", "2024-10-04 12:00")
    assert (first["interruption"], first["overlap"], first["node-hours twice"]) == ("04:00:00", "", "")
    assert (second["links"], second["end (UTC)"]) == ("2 → 3", "2024-10-05 02:00")
    assert (second["interruption"], second["overlap"], second["node-hours twice"]) == ("", "02:00:00", "4.00")
    coloured = {(cell.get("class") or "").split()[-1]: "".join(cell.itertext()) for row in rows for cell in row[2:4]}
    assert (coloured["gap"], coloured["overlap"]) == ("04:00:00", "02:00:00")


@pytest.mark.parametrize("links", [(), LINKS[3:], LINKS[:1], MANY.links])
def test_a_page_of_any_chain(links: tuple[LinkRecord, ...]) -> None:
    run = ChainRun(Link(), DAY0, DAY0 + 50 * HOUR, links, ())
    page = chain_page(run, FACTS, [], [], "0.1.0")
    assert ("None has been submitted yet" in page) == (not links)
    assert ("The whole life" in page) == (len(links) == 40)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)


def test_every_colour_and_class_there_is_one_for() -> None:
    page = chain_page(RUN, FACTS, [told(d) for d in DECISIONS], [], "0.1.0")
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
