"""The demonstration on the terminal, sign by sign."""

from __future__ import annotations

import io

from rich.console import Console

from mirage.report.terminal.demo_text import print_demonstration, stages
from tests.support.report_samples import demonstration


def printed(width: int, **console: object) -> list[str]:
    out = io.StringIO()
    print_demonstration(demonstration(), "out.html", Console(file=out, width=width, highlight=False, **console))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_the_whole_of_it() -> None:
    busy, queued = "▇▇▇███" * 14, "▁▂▂▃▄▄▅▅▆▇▇█" * 7
    assert printed(100) == [
        "76 nodes, 1,234 jobs in two weeks, 93% busy; waits: median 49.5 h, 95 % up to 94.0 h, longest 99.0 h",
        f"busy    {busy}",
        f"queued  {queued}",
        "",
        "links of  policy    interruption  longest  overlap  alive   cost",
        "8 nodes   reactive        48.0 h   12.0 h    0.0 h  85.7%  144.0",
        "8 nodes   what-if        150.0 h  150.0 h    6.0 h  55.4%  456.0",
        "8 nodes   auto             6.0 h    6.0 h    6.0 h  98.2%   24.0",
        "",
        "cost: an hour of interruption to an hour of overlap as 3:1; seed 7",
        "report: out.html",
    ]


def test_a_narrow_terminal_shows_every_number_whole() -> None:
    lines = printed(60)
    at = lines.index("  policy        reactive")
    assert lines[at - 1 : at + 3] == [
        "8 nodes",
        "  policy        reactive",
        "  interruption  48.0 h",
        "  longest       12.0 h",
    ]
    assert all(len(line) <= 60 for line in lines)


def test_what_was_lost_is_red_and_what_was_wasted_yellow() -> None:
    rows = [line for line in printed(100, force_terminal=True, color_system="standard") if "8 nodes" in line]
    assert [row.split("\x1b[")[1][:3] for row in rows] == ["31m", "31m", "31m"]
    assert [row.split("\x1b[")[3][:3] for row in rows] == ["32m", "33m", "33m"]


def test_standard_output_is_where_it_goes(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    print_demonstration(demonstration(), "out.html")
    assert capsys.readouterr().out.splitlines() == printed(100)


def test_stages_are_lines_without_a_terminal(capsys) -> None:
    with stages() as report:
        report("loading")
        report("playing")
    assert capsys.readouterr() == ("", "mirage: loading\nmirage: playing\n")
