"""Chart of the interruption of whole chains, read with its own axes."""

from __future__ import annotations

import pytest

from mirage.report.charts.interruption_chart import LONG, SHORT, WINDOW, interruption_chart
from mirage.report.picture import Dot, Shape
from tests.support.picture_reading import hints_of, label, marks_of, texts_of
from tests.support.report_samples import chain_evaluation


@pytest.mark.parametrize("width", [320, 940])
def test_bars_are_means_and_points_are_windows(width: float) -> None:
    (table,) = chain_evaluation().tables()
    picture = interruption_chart(table.rows, table.chains, width)
    zero, fifty = label(picture, "0"), label(picture, "50")
    rows_px = {name: label(picture, name).y - 4 for name in ("reactive  85.1%", "auto  96.3%", "oracle  100.0%")}
    assert list(rows_px.values()) == sorted(rows_px.values()), "in the order of the table"

    def hours(x: float) -> float:
        return round((x - zero.x) / (fifty.x - zero.x) * 50, 1)

    def row(y: float) -> str:
        return min(rows_px, key=lambda name: abs(rows_px[name] - y)).partition(" ")[0]

    bars = [mark for mark in marks_of(picture) if isinstance(mark, Shape) and mark.style in (LONG, SHORT)]
    drawn = [
        (mark.style, row(sum(y for _, y in mark.places) / 4), hours(mark.places[0][0]), hours(mark.places[1][0]))
        for mark in bars
    ]
    assert [one for one in drawn if one[2] < one[3]] == [
        (LONG, "reactive", 0, 25), (SHORT, "reactive", 25, 50), (LONG, "auto", 0, 6.2), (SHORT, "auto", 6.2, 12.5),
    ]  # fmt: skip
    points = [(row(dot.y), hours(dot.x)) for dot in marks_of(picture) if isinstance(dot, Dot) and dot.hint]
    assert points == [
        *(("reactive", h) for h in (20, 40, 60, 80)), *(("auto", h) for h in (5, 10, 15, 20)), *[("oracle", 0)] * 4,
    ]  # fmt: skip
    assert hints_of(picture, WINDOW)[1] == "reactive, window of 2024-10-18: 40.0 h"
    assert "interruption per chain, h" in texts_of(picture)
    assert picture.description.startswith("Interruption per chain. reactive: 50.0 h, alive 85.1%; auto: 12.5 h")
