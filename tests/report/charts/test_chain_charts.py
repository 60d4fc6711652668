"""Charts of a chain, read with their dates: links in lanes and in rows, and what was lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun
from mirage.report.charts.chain_charts import chain_chart, link_chart, losses
from mirage.report.picture import NARROW, WIDE, Bar, Label, Picture, text_px
from tests.support.picture_reading import bars, hints_of, label, marks_of, strokes, texts_of, timeline
from tests.support.report_samples import DAY0, HOUR, LINKS, RUN, record

YEAR = 2024  # DAY0 is October 4
BOTH = replace(
    RUN,
    links=(LINKS[0], replace(LINKS[1], started_s=LINKS[0].ends_s - 2 * HOUR, ready_s=LINKS[0].ends_s + HOUR)),
    until_s=DAY0 + 26 * HOUR,
)
"""The second link starts two hours before the end of the first, and serves an hour after it."""


def spans(picture: Picture, style: str) -> list[tuple[float, float]]:
    """Begin and end of the rectangles of a style, in hours since ``DAY0``."""
    at = timeline(picture, YEAR)
    return [tuple(round((at(x) - DAY0) / HOUR, 2) for x in (bar.x, bar.x + bar.width)) for bar in bars(picture, style)]


def lines(picture: Picture, style: str) -> list[tuple[float, float]]:
    at = timeline(picture, YEAR)
    found = strokes(picture, style)
    assert all(one[0][1] == one[1][1] for one in found)
    return [tuple(round((at(x) - DAY0) / HOUR, 2) for x, _ in one) for one in found]


def labels(picture: Picture, style: str) -> list[Label]:
    return [mark for mark in marks_of(picture) if isinstance(mark, Label) and mark.style == style]


# -- all links in two lanes -------------------------------------------------------------------------------------------


def test_links_are_in_two_lanes_in_turn_with_losses_across_both() -> None:
    run = replace(RUN, until_s=DAY0 + 48 * HOUR)
    picture = chain_chart({"what-if": run}, WIDE)
    assert spans(picture, "link-a") == [(2, 12), (24, 34)]
    assert spans(picture, "link-b") == [(16, 26)]
    assert spans(picture, "gap")[0] == (12, 16)
    assert spans(picture, "overlap") == [(24, 26)]
    assert lines(picture, "waiting") == [(0, 2), (8, 16), (20, 24), (28, 48)]
    first, second, third = bars(picture, "link-a")[0], bars(picture, "link-b")[0], bars(picture, "link-a")[1]
    assert (first.y, first.height, second.y - first.y, third.y, first.rx) == (50, 24, 27, first.y, 4)
    (overlap,) = bars(picture, "overlap")
    assert (overlap.y, overlap.height) == (first.y, 51)
    assert [one[0][1] for one in strokes(picture, "waiting")] == [62, 89, 62, 89]
    kinds = [getattr(mark, "kind", getattr(mark, "style", "")) for mark in marks_of(picture)]
    last_wait = len(kinds) - 1 - kinds[::-1].index("waiting")
    assert last_wait < kinds.index("link-a"), "waits are drawn first: one may begin before the link before it starts"
    assert (picture.width, picture.height) == (940, 4 + 46 + 51 + 26 + 30)


def test_links_and_losses_have_hints_and_names() -> None:
    picture = chain_chart({"what-if": replace(RUN, until_s=DAY0 + 48 * HOUR)}, WIDE)
    assert hints_of(picture) == [
        "link 1: submitted Oct 4 00:00, waited 2.0 h, ran Oct 4 02:00 to Oct 4 12:00",
        "link 2: submitted Oct 4 08:00, waited 8.0 h, ran Oct 4 16:00 to Oct 5 02:00",
        "link 3: submitted Oct 4 20:00, waited 4.0 h, ran Oct 5 00:00 to Oct 5 10:00",
        "interruption of 4.0 h after link 1",
        "overlap of 2.0 h after link 2",
        "interruption of 14.0 h after link 3, still open",
    ]
    assert [str(name.text) for name in labels(picture, "link-name")] == ["link 1", "link 2", "link 3"]
    at = timeline(picture, YEAR)
    middles = [(at(name.x) - DAY0) / HOUR for name in labels(picture, "link-name")]
    assert middles == pytest.approx([7, 21, (26 + 34) / 2], abs=0.01), "after the end of the link before"
    gaps, overlaps = labels(picture, "gap-text halo"), labels(picture, "overlap-text halo")
    assert [(str(one.text), round((at(one.x) - DAY0) / HOUR, 2), one.y) for one in gaps] == [
        ("4.0 h", 14, 44), ("14.0 h", 41, 44)
    ]  # fmt: skip
    assert [(str(one.text), round((at(one.x) - DAY0) / HOUR, 2), one.y) for one in overlaps] == [("2.0 h", 25, 117)]


def test_every_policy_has_its_band_with_its_figures() -> None:
    other = replace(RUN, links=RUN.links[:2], until_s=RUN.until_s)
    picture = chain_chart({"what-if": RUN, "reactive": other}, WIDE)
    (first, second) = labels(picture, "strong halo")
    assert [(one.text, one.x, one.y, one.size) for one in (first, second)] == [
        ("what-if", 8, 22, 14), ("reactive", 8, 22 + 123, 14)
    ]  # fmt: skip
    one, another = labels(picture, "halo")
    alive = [f"{run.availability:.1%}" for run in (RUN, other)]
    assert (one.text, one.x, one.y, one.anchor) == (
        f"4.0 h interruption · 2.0 h overlap · alive {alive[0]}", 932, 22, "end"
    )  # fmt: skip
    assert another.text == f"8.0 h interruption · 0.0 h overlap · alive {alive[1]}"
    assert bars(picture, "link-b")[1].y - bars(picture, "link-b")[0].y == 123
    assert picture.description == (
        "Links of a chain over time. what-if: 4.0 h of interruption, 2.0 h of overlap; "
        "reactive: 8.0 h of interruption, 0.0 h of overlap"
    )
    narrow = chain_chart({"what-if": RUN}, NARROW)
    (name,), (figures,) = labels(narrow, "strong halo"), labels(narrow, "halo")
    assert (name.y, figures.x, figures.y, figures.anchor) == (22, 8, 40, "")
    assert narrow.height == chain_chart({"what-if": RUN}, WIDE).height + 18


def test_short_losses_are_left_out_and_names_do_not_overlap() -> None:
    def drawn(lost_s: int, width: float = WIDE) -> Picture:
        second = replace(LINKS[1], started_s=LINKS[0].ends_s + lost_s, ends_s=LINKS[0].ends_s + 40 * HOUR)
        third = replace(LINKS[2], started_s=second.ends_s + lost_s, ends_s=second.ends_s + 10 * HOUR)
        run = replace(RUN, links=(LINKS[0], second, third), until_s=DAY0 + 60 * HOUR)
        return chain_chart({"one": run}, width)

    assert bars(drawn(599), "gap") == []
    assert len(bars(drawn(600), "gap")) == 2
    assert labels(drawn(1799), "gap-text halo") == []
    assert len(labels(drawn(1800), "gap-text halo")) == 2
    assert bars(drawn(600), "gap")[0].width >= 1.5
    near = [
        replace(record(k, 2 * k, 2 * k, 2 * k + 1), started_s=DAY0 + 2 * k * HOUR, ends_s=DAY0 + (2 * k + 1) * HOUR)
        for k in range(40)
    ]
    crowded = chain_chart({"one": replace(RUN, links=tuple(near), until_s=DAY0 + 80 * HOUR)}, 640)
    named = labels(crowded, "gap-text halo")
    assert 10 < len(named) < 39
    assert all(b.x - a.x >= text_px("1.0 h") + 4 for a, b in pairwise(named))
    at_edge = labels(chain_chart({"one": replace(BOTH, until_s=BOTH.links[0].ends_s + HOUR)}, WIDE), "gap-text halo")
    assert at_edge[0].x <= 932 - text_px("1.0 h") / 2


def test_a_link_that_has_not_started_is_a_line_only() -> None:
    late = replace(RUN, links=(LINKS[0], replace(LINKS[1], started_s=DAY0 + 40 * HOUR, ends_s=DAY0 + 50 * HOUR)))
    picture = chain_chart({"one": late}, WIDE)
    assert bars(picture, "link-b") == []
    assert lines(picture, "waiting") == [(0, 2), (8, 30)]
    at_once = chain_chart({"one": replace(RUN, links=(record(0, 2, 2, 12),))}, WIDE)
    assert strokes(at_once, "waiting") == []


def test_a_narrow_link_has_its_number_or_no_name() -> None:
    def name(hours: float) -> list[str]:
        links = (replace(record(9, 0, 0, 10), ends_s=DAY0 + round(hours * HOUR)),)
        picture = chain_chart({"one": ChainRun(RUN.link, DAY0, DAY0 + 924 * HOUR, links, ())}, WIDE)
        return [str(one.text) for one in labels(picture, "link-name")]

    whole, number = text_px("link 10") + 10, text_px("10") + 10
    assert [name(hours) for hours in (whole + 0.1, whole - 0.1, number + 0.1, number - 0.1)] == [
        ["link 10"], ["10"], ["10"], []
    ]  # fmt: skip


def test_losses_of_a_hand_over() -> None:
    (over,) = BOTH.hand_overs
    ends_s = LINKS[0].ends_s
    assert list(losses(over)) == [("overlap", ends_s - 2 * HOUR, 2 * HOUR), ("gap", ends_s, HOUR)]
    picture = chain_chart({"one": BOTH}, WIDE)
    assert spans(picture, "overlap") == [(10, 12)]
    assert spans(picture, "gap") == [(12, 13)]


# -- the last links in rows -------------------------------------------------------------------------------------------


def test_every_link_has_a_row_with_its_stages() -> None:
    picture = link_chart(RUN, WIDE)
    assert spans(picture, "link-b") == [(2, 12), (16, 26), (24, 30)]
    assert spans(picture, "link-b ahead") == [(30, 34)]
    assert lines(picture, "waiting") == [(0, 2), (8, 16), (20, 24), (28, 30)]
    assert lines(picture, "held") == [(3, 8), (17, 20), (25, 28)]
    assert spans(picture, "gap-band") == [(12, 16)]
    assert spans(picture, "overlap-band") == [(24, 26)]
    (now,) = strokes(picture, "now")
    assert [(timeline(picture, YEAR)(x) - DAY0) / HOUR for x, _ in now] == pytest.approx([30, 30])
    assert now[0][1] == 22
    tops = [bar.y for bar in bars(picture, "link-b")]
    assert tops == [32, 60, 88]
    assert {bar.height for bar in bars(picture, "link-b")} == {16}
    assert [one[0][1] for one in strokes(picture, "waiting")] == [40, 68, 96, 124]
    assert (bars(picture, "gap-band")[0].y, bars(picture, "gap-band")[0].height) == (26, 56)
    assert (bars(picture, "overlap-band")[0].y, bars(picture, "overlap-band")[0].height) == (54, 56)
    assert picture.height == 26 + 4 * 28 + 28
    assert label(picture, "now").y == 17
    at = timeline(picture, YEAR)
    assert at(112) == pytest.approx(DAY0, abs=30)
    assert at(940 - 86) == pytest.approx(DAY0 + 34 * HOUR, abs=30)


def test_rows_have_names_jobs_losses_and_hints() -> None:
    picture = link_chart(RUN, WIDE)
    names = labels(picture, "strong halo")
    assert [(name.text, name.x, name.y) for name in names] == [
        ("link 1", 0, 44), ("link 2", 0, 72), ("link 3", 0, 100), ("link 4", 0, 128)
    ]  # fmt: skip
    assert [(job.text, job.x, job.y, job.anchor) for job in labels(picture, "halo")] == [
        (40, 100, 44, "end"), (41, 100, 72, "end"), (42, 100, 100, "end"), (43, 100, 128, "end")
    ]  # fmt: skip
    (gap,), (overlap,) = labels(picture, "gap-text halo"), labels(picture, "overlap-text halo")
    assert (gap.text, gap.x, gap.y, gap.anchor, gap.hint) == ("+04:00:00", 940, 72, "end", "no link ran: +04:00:00")
    assert (overlap.text, overlap.x, overlap.y, overlap.hint) == ("−02:00:00", 940, 100, "two links ran: −02:00:00")
    assert hints_of(picture) == [
        "link 1, job 40: waited 02:00:00, ran Oct 4 02:00 to Oct 4 12:00",
        "link 2, job 41: waited 08:00:00, ran Oct 4 16:00 to Oct 5 02:00",
        "link 3, job 42: waited 04:00:00, ran Oct 5 to Oct 5 10:00",
        "its limit is at Oct 5 10:00",
    ]
    assert picture.description == (
        "The last 4 links over time. link 2 after link 1, link 3 after link 2, link 4 after link 3"
    )


def test_on_a_narrow_screen_names_are_above_their_bars() -> None:
    picture = link_chart(RUN, NARROW)
    assert [bar.y for bar in bars(picture, "link-b")] == [26 + 18, 26 + 40 + 18, 26 + 80 + 18]
    assert [name.y for name in labels(picture, "strong halo")] == [40, 80, 120, 160]
    job = labels(picture, "halo")[0]
    assert (job.x, job.anchor) == (text_px("link 1") + 10, "start")
    at = timeline(picture, YEAR)
    assert at(8) == pytest.approx(DAY0, abs=60)
    assert at(312) == pytest.approx(DAY0 + 34 * HOUR, abs=60)


def test_an_overlap_and_an_interruption_are_written_side_by_side() -> None:
    picture = link_chart(BOTH, WIDE)
    (gap,), (overlap,) = labels(picture, "gap-text halo"), labels(picture, "overlap-text halo")
    assert (overlap.x, gap.x) == (940, 940 - text_px("−02:00:00") - 8)
    assert max(bar.x + bar.width for bar in bars(picture, "link-b")) <= 940 - 172
    assert spans(picture, "gap-band") == [(12, 13)]
    assert spans(picture, "overlap-band") == [(10, 12)]


def test_an_open_interruption_is_marked_in_the_row_of_the_link_that_ended() -> None:
    following = replace(RUN, links=(LINKS[0], record(1, 8, -1, -1)), until_s=DAY0 + 15 * HOUR)
    (gap,) = labels(link_chart(following, WIDE), "gap-text halo")
    assert (gap.text, gap.y) == ("+03:00:00 …", 44)
    assert "now" not in texts_of(link_chart(following, WIDE)), "nothing is drawn after now"


def test_the_last_fourteen_links_are_drawn() -> None:
    many = replace(RUN, links=tuple(record(k, 9 * k, 9 * k, 9 * k + 10) for k in range(40)), until_s=DAY0 + 361 * HOUR)
    picture = link_chart(many, WIDE)
    assert [str(one.text) for one in labels(picture, "strong halo")] == [f"link {k}" for k in range(27, 41)]
    assert len(labels(picture, "overlap-text halo")) == 13
    assert picture.description.startswith("The last 14 links over time. link 28 after link 27, ")
    assert timeline(picture, YEAR)(112) == pytest.approx(DAY0 + 26 * 9 * HOUR, abs=60)


def test_a_link_without_a_job_or_a_start_is_a_name_and_a_line() -> None:
    held = replace(record(0, 9, -1, -1, 3), job=MISSING)
    picture = link_chart(replace(RUN, links=(held,), until_s=DAY0 + 12 * HOUR), WIDE)
    assert [str(one.text) for one in labels(picture, "strong halo")] == ["link 1"]
    assert labels(picture, "halo") == []
    assert lines(picture, "held") == [(3, 9)]
    assert lines(picture, "waiting") == [(9, 12)]
    assert [mark for mark in marks_of(picture) if isinstance(mark, Bar)] == []
