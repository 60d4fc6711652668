"""Tables on the terminal: every cell whole, at any width."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from mirage.report.terminal.console_table import Cell, fits, print_table

NAMES = ("policy", "interruption h", "overlap h", "cost")
ROWS: list[list[Cell]] = [["reactive", "10.75", "0.00", Text("107.50")], ["what-if", "0.25", "4.75", Text("6.00")]]


def printed(width: int, rows: list[list[Cell]], names: tuple[str, ...] = NAMES, **options: object) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, highlight=False), names, rows, **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_table_that_fits_is_one_line_a_row() -> None:
    assert printed(43, ROWS).splitlines() == [
        "policy    interruption h  overlap h    cost",
        "reactive           10.75       0.00  107.50",
        "what-if             0.25       4.75    6.00",
    ]


def test_heads_are_folded_before_anything_else() -> None:
    assert printed(42, ROWS).splitlines() == [
        "          interruption  overlap        ",
        "policy               h        h    cost",
        "reactive         10.75     0.00  107.50",
        "what-if           0.25     4.75    6.00",
    ]


def test_what_does_not_fit_at_all_is_a_line_a_cell() -> None:
    assert printed(30, ROWS[:1]).splitlines() == [
        "reactive", "  interruption h  10.75", "  overlap h       0.00", "  cost            107.50",
    ]  # fmt: skip


def test_brackets_in_a_cell_or_a_head_are_no_styles() -> None:
    text = printed(60, [["./[new]/a[/b]", "1"]], ("policy [bold]", "n"))
    assert text.splitlines() == ["policy [bold]  n", "./[new]/a[/b]  1"]


def test_words_stand_at_the_left_and_rows_have_styles() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40, force_terminal=True, color_system="standard", highlight=False)
    print_table(console, ("a", "bbb", "n"), [["x", "y", "1"], ["xx", "yy", "22"]], left=2, styles=["", "bold"])
    lines = out.getvalue().splitlines()
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines] == ["a   bbb   n", "x   y     1", "xx  yy   22"]
    assert ["\x1b[1m" in line for line in lines] == [False, False, True]


numbers = st.floats(0, 1e9).map("{:,.2f}".format)


@given(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=4), st.integers(20, 130))
def test_no_number_is_cut_at_any_width(rows: list[list[str]], width: int) -> None:
    shown = printed(width, [list(row) for row in rows])
    words = shown.split()
    assert all(words.count(cell) >= sum(row.count(cell) for row in rows) for row in rows for cell in row)
    assert "…" not in shown


@pytest.mark.parametrize(("width", "lines"), [(20, 8), (38, 8), (39, 4), (42, 4), (43, 3), (200, 3)])
def test_the_most_compact_form_that_fits_is_chosen(width: int, lines: int) -> None:
    assert len(printed(width, ROWS).splitlines()) == lines
    assert fits(Console(width=width), NAMES, ROWS) == (lines < 8)
