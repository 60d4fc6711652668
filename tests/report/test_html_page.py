"""Parts of pages: charts at three widths, keys, tables that become cards."""

from __future__ import annotations

import re

from mirage.report.charts.chain_charts import CHAIN_KEY, LINK_KEY
from mirage.report.charts.decision_charts import DECISION_KEY, estimate_key
from mirage.report.html_page import chart, key, sentences, table
from mirage.report.picture import MIDDLE, NARROW, WIDE, Picture
from mirage.report.theme import CHART
from tests.support.page_markup import classes, tables


def test_a_chart_is_drawn_at_every_width_and_the_page_shows_one() -> None:
    drawn: list[float] = []

    def draw(width: float) -> Picture:
        drawn.append(width)
        return Picture(width, 1, [], "")

    markup = chart(draw)
    assert drawn == [NARROW, MIDDLE, WIDE] == [320, 640, 940]
    assert re.findall(r'<div class="(\w+)"><svg [^>]*viewBox="0 0 (\d+) 1"', markup) == [
        ("narrow", "320"), ("middle", "640"), ("wide", "940")
    ]  # fmt: skip


def test_a_key_draws_lines_as_lines_dots_as_dots_and_areas_as_areas() -> None:
    markup = key([("waiting", "a <queue>"), ("waited", "a dot"), ("gap", "a box")])
    assert re.findall(r"<(line|circle|rect)[^>]*class=\"(\w+)\"", markup) == [
        ("line", "waiting"), ("circle", "waited"), ("rect", "gap")
    ]  # fmt: skip
    assert "a &lt;queue&gt;" in markup


def test_no_line_of_a_sentence_ends_within_a_figure() -> None:
    marked = sentences("up to 11.6 h < 76 nodes, 2024-10-04 to 2024-10-07, 3:1 and 12 hands")
    assert re.findall(r'<span class="whole">(.*?)</span>', marked) == ["11.6 h", "76 nodes", "2024-10-04", "2024-10-07"]
    assert re.sub(r"<[^>]*>", "", marked) == "up to 11.6 h &lt; 76 nodes, 2024-10-04 to 2024-10-07, 3:1 and 12 hands"


def test_every_mark_of_a_key_has_a_style() -> None:
    for mark, _ in (*CHAIN_KEY, *DECISION_KEY, *LINK_KEY, *estimate_key(())):
        assert all(f".{name} " in CHART for name in mark.split()), mark


def test_a_table_of_cards_names_its_cells() -> None:
    rows = [["a", ("1 h", "gap"), ""], ["b", "2 h", "x"]]
    plain, cards = table(("policy", "lost", "note"), rows), table(("policy", "lost", "note"), rows, cards=True)
    assert tables(plain) == tables(cards) == [[["policy", "lost", "note"], ["a", "1 h", ""], ["b", "2 h", "x"]]]
    assert classes(plain) == [["", "n gap", "n empty"], ["", "n", "n"]]
    assert re.findall(r'data-name="(\w+)"', cards) == ["policy", "lost", "note"] * 2
    assert "data-name" not in plain
    assert 'class="cards"' not in plain
    assert classes(table(("a", "b"), [["x", "y"]], numbers_from=2)) == [["", ""]]
