"""Charts of decisions, read with their own axes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.job_state import MISSING
from mirage.provision.chain_record import Decision
from mirage.report.charts.decision_charts import decision_chart, estimate_chart, estimate_key, link_to_explain
from tests.support.picture_reading import hints_of, label, readings, strokes, texts_of
from tests.support.report_samples import DAY0, DECISIONS, HOUR, KNOWN, RUN, decision

YEAR = 2024  # DAY0 is October 4


def hours(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(round((at_s - DAY0) / HOUR, 3), round(value, 3)) for at_s, value in points]


def made(*rows: tuple[float, int, float, bool, float]) -> list[Decision]:
    """Decisions by hour, link, hours left, choice, and median wait in hours (95 %: triple)."""
    return [
        decision(
            hour,
            link,
            left_h,
            submits,
            wait_p05_s=wait_h * HOUR / 2,
            wait_p50_s=wait_h * HOUR,
            wait_p95_s=3 * wait_h * HOUR,
        )
        for hour, link, left_h, submits, wait_h in rows
    ]


def test_the_key_has_the_marks_that_are_drawn() -> None:
    assert estimate_key([DECISIONS[2]]) == (
        ("remaining", "remaining time of the running link"), ("submit", "submits the next link")
    )  # fmt: skip
    assert [style for style, _ in estimate_key(DECISIONS)] == [
        "remaining", "median", "band", "submit", "cost-now", "cost-later"
    ]  # fmt: skip
    assert [style for style, _ in estimate_key(made((1, 0, 8, False, 2)))] == ["remaining", "median", "band", "submit"]
    unknown = decision(1, 0, 8, False, cost_now=float("nan"), wait_p50_s=float("inf"))
    assert [style for style, _ in estimate_key([unknown])] == ["remaining", "submit"]
    assert dict(estimate_key(DECISIONS))["band"] == "5 to 95 % of futures"


def test_times_left_and_expected_waits_share_an_axis_of_hours() -> None:
    picture = estimate_chart(DECISIONS)
    above, below = readings(picture, YEAR)
    assert [hours(curve) for curve in above.curves("remaining")] == [[(4, 8), (8, 4)], [(18, 8), (20, 6)]]
    whole, single = (hours(curve) for curve in above.curves("median"))
    assert whole == [(4, 2), (8, 2)]
    assert [value for _, value in single] == [2, 2], "the other decision about that link had no estimate"
    upper, lower = 20_000 / 3600, 1.0
    assert [hours(shape) for shape in above.shapes("band")] == [
        [(4, round(upper, 3)), (8, round(upper, 3)), (8, lower), (4, lower)]
    ]
    assert (above.names[0], below.names[0]) == ("0", "0")
    assert above.at_y(above.top) == pytest.approx(8 * 1.05)
    assert below.at_y(below.top) == pytest.approx(2 * 1.05)
    assert hours(below.curves("cost-now")[0]) == [(4, 2), (8, 2)]
    assert [hours(curve) for curve in below.curves("cost-later")] == [[(4, 1), (8, 1)]]
    assert (above.at_x(above.left), above.at_x(above.right)) == (DAY0 + 4 * HOUR, DAY0 + 20 * HOUR)
    assert picture.description == "4 decisions about the last 2 links; 2 let the next compete."


def test_submissions_are_green_lines_through_both_frames_named_above() -> None:
    picture = estimate_chart(DECISIONS)
    above, below = readings(picture, YEAR)
    lines = strokes(picture, "submit")
    assert [above.at_x(line[0][0]) for line in lines] == [DAY0 + hour * HOUR for hour in (8, 20, 8, 20)]
    assert [line[1][1] for line in lines] == [above.bottom] * 2 + [below.bottom] * 2
    assert [text for text in texts_of(picture) if text.startswith("submits")] == ["submits link 2", "submits link 3"]
    assert label(picture, "submits link 2").style == "submit-text halo"
    assert [text for text in texts_of(picture) if text.startswith(("hours", "expected"))] == ["hours", "expected cost"]
    assert above.below == [], "the times are below the lower frame"
    assert below.below[0].startswith("Oct 4")


def test_without_costs_there_is_one_frame() -> None:
    picture = estimate_chart(made((0, 0, 30, False, 2), (10, 0, 20, True, 3)))
    (frame,) = readings(picture, YEAR)
    assert frame.below[0].startswith("Oct 4 00:00")
    assert frame.at_y(frame.top) == pytest.approx(30 * 1.05)
    assert [hours(shape) for shape in frame.shapes("band")] == [[(0, 6), (10, 9), (10, 1.5), (0, 1)]], "5 to 95 %"


def test_a_long_tail_is_cut_off_at_twice_the_rest_and_marked() -> None:
    picture = estimate_chart(made((0, 0, 5, False, 2), (1, 0, 4, False, 20), (2, 0, -3, True, 2)))
    (frame,) = readings(picture, YEAR)
    assert frame.at_y(frame.top) == pytest.approx(2 * 20 * 1.05)
    assert "up to 60 h" in texts_of(picture)
    assert hours(frame.curves("remaining")[0]) == [(0, 5), (1, 4), (2, 0)], "not below 0"
    calm = estimate_chart(made((0, 0, 5, False, 1), (2, 0, 3, True, 2)))
    assert readings(calm, YEAR)[0].at_y(readings(calm, YEAR)[0].top) == pytest.approx(6 * 1.05)


def test_the_last_four_links_are_drawn() -> None:
    rows = made(*((10 * link + k, link, 9 - k, k == 4, 1.0) for link in range(6) for k in range(5)))
    picture = estimate_chart(rows)
    (frame,) = readings(picture, YEAR)
    assert [hours(curve)[0] for curve in frame.curves("remaining")] == [(20, 9), (30, 9), (40, 9), (50, 9)]
    assert picture.description == "20 decisions about the last 4 links; 4 let the next compete."


WAITS = (3.0, 2.5, 2.0, 4.0)
MADE = replace(RUN, decisions=tuple(made(*((4 + k, 0, 8 - k, k == 3, wait) for k, wait in enumerate(WAITS)))))


def test_the_explained_link_is_that_before_the_longest_wait() -> None:
    assert link_to_explain(RUN) is None, "two decisions with estimates are too few"
    assert link_to_explain(MADE) == 0
    both = replace(MADE, decisions=(*MADE.decisions, *made(*((15 + k, 1, 9 - k, k == 2, 1.0) for k in range(3)))))
    assert link_to_explain(both) == 0, "a wait of eight hours is longer than one of four"
    shorter = replace(MADE.links[1], submitted_s=DAY0 + 13 * HOUR)
    assert link_to_explain(replace(both, links=(RUN.links[0], shorter, *RUN.links[2:]))) == 1
    waiting = replace(MADE.links[1], started_s=MISSING)
    assert link_to_explain(replace(MADE, links=(RUN.links[0], waiting))) is None


def test_the_decisions_of_one_link_end_with_the_real_wait() -> None:
    picture = decision_chart(MADE, 0)
    (frame,) = readings(picture, YEAR)
    assert hours(frame.curves("remaining")[0]) == [(4, 8), (5, 7), (6, 6), (7, 5)]
    assert hours(frame.curves("median")[0]) == [(4, 3), (5, 2.5), (6, 2), (7, 4)]
    assert [hours(shape) for shape in frame.shapes("band")] == [
        [(4, 9), (5, 7.5), (6, 6), (7, 9.2), (7, 2), (6, 1), (5, 1.25), (4, 1.5)]
    ]
    assert frame.at_y(frame.top) == pytest.approx(8 * 1.15), "hours left, or the real wait"
    assert [hours([dot]) for dot in frame.dots("waited")] == [[(7, 8)]]
    assert hints_of(picture, "waited") == ["it waited 8.0 h"]
    assert frame.at_x(frame.right) == pytest.approx(DAY0 + 7 * HOUR + 0.04 * 3 * HOUR, abs=1)
    assert "submits the next link" in texts_of(picture)
    assert "up to 12 h" in texts_of(picture)
    assert picture.description == (
        "Estimates while link 1 ran, until the next was submitted with 5.0 h left. It waited 8.0 h."
    )


def test_a_band_with_an_unknown_end_is_left_out() -> None:
    first, second, *others = MADE.decisions
    endless = replace(second, estimate={**second.estimate, "wait_p95_s": float("inf")})
    (frame,) = readings(decision_chart(replace(MADE, decisions=(first, endless, *others)), 0), YEAR)
    assert frame.shapes("band") == []
    assert hours(frame.curves("median")[0]) == [(4, 3), (5, 2.5), (6, 2), (7, 4)]


def test_only_the_last_36_hours_before_a_submission_count() -> None:
    early = made((-33, 0, 45, False, 1.0), (-29, 0, 41, False, 1.5))
    lacking = [replace(MADE.decisions[0], now_s=DAY0 + 5 * HOUR + 60, estimate={"wait_p50_s": 3600.0})]
    picture = decision_chart(replace(MADE, decisions=(*early, *MADE.decisions[:1], *lacking, *MADE.decisions[1:])), 0)
    (frame,) = readings(picture, YEAR)
    assert hours(frame.curves("remaining")[0]) == [(-29, 41), (4, 8), (5, 7), (6, 6), (7, 5)]
    assert KNOWN["wait_p50_s"] == 7200


def test_what_was_decided_after_the_submission_is_not_drawn() -> None:
    later = made((9, 0, 3, False, 1.0), (10, 0, 2, False, 1.0))
    drawn = decision_chart(replace(MADE, decisions=(*MADE.decisions, *later)), 0)
    assert drawn.description == decision_chart(MADE, 0).description
    (frame,) = readings(drawn, YEAR)
    assert hours(frame.curves("remaining")[0]) == [(4, 8), (5, 7), (6, 6), (7, 5)]
