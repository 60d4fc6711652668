"""An evaluation on the terminal, sign by sign: figures that can be worked out by hand."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import VERDICTS_NOTE
from mirage.report.terminal.console_table import PLAIN_WIDTH
from mirage.report.terminal.evaluation_text import print_evaluation
from tests.support.report_samples import PROVENANCE, evaluation

FEW = evaluation([Cost(1, 1), Cost(5, 1)], windows=8)
"""Waits of 1, 4, 16 and 22 h, twice each; an hour asked ahead saves an hour."""


def printed(shown: Evaluation, width: int) -> list[str]:
    out = io.StringIO()
    print_evaluation(shown, PROVENANCE, Console(file=out, width=width, highlight=False))
    return out.getvalue().splitlines()


def test_the_whole_of_it() -> None:
    lines = printed(FEW, 140)
    assert lines[:15] == [
        "data/jobs.csv: 60 windows from 2024-10-04T00:00:00Z, one every 04:00:00, protocol warm, slurm on 76 nodes, "
        "settings lonestar6",
        "links of a newcomer, hand-over 1",
        "",
        "links of 1 node, all loads: 8 windows",
        "policy    cost ratio       interruption h           overlap h  x ≤ 0  p95 int/ovl  lead h           "
        "       cost         gap closed",
        "reactive         1:1  10.75 [0.00, 26.77]   0.00 [0.00, 0.00]     0%     22.0/0.0     0.0   10.75 [0"
        ".00, 26.77]        0% [0%, 0%]",
        "average          1:1   6.50 [0.00, 20.02]   1.75 [0.00, 6.74]    50%     16.0/5.0     6.0    8.25 [0"
        ".00, 18.38]   23% [-140%, 79%]",
        "lead:4           1:1   7.50 [0.00, 22.63]   0.75 [0.00, 6.12]    50%     18.0/3.0     4.0    8.25 [0"
        ".00, 21.69]      23% [9%, 82%]",
        "what-if          1:1   3.75 [0.00, 11.31]   0.25 [0.00, 2.04]    50%      9.0/1.0     7.2    4.00 [0"
        ".00, 11.05]    63% [48%, 100%]",
        "oracle           1:1    0.00 [0.00, 0.00]   0.00 [0.00, 0.00]   100%      0.0/0.0    10.8     0.00 ["
        "0.00, 0.00]  100% [100%, 100%]",
        "reactive         5:1  10.75 [0.00, 26.77]   0.00 [0.00, 0.00]     0%     22.0/0.0     0.0  53.75 [0."
        "00, 133.85]        0% [0%, 0%]",
        "average          5:1   6.50 [0.00, 20.02]   1.75 [0.00, 6.74]    50%     16.0/5.0     6.0   34.25 [0"
        ".00, 99.00]      36% [5%, 72%]",
        "lead:4           5:1   7.50 [0.00, 22.63]   0.75 [0.00, 6.12]    50%     18.0/3.0     4.0  38.25 [0."
        "00, 112.57]   29% [-23%, 100%]",
        "what-if          5:1    0.25 [0.00, 2.04]  4.75 [0.00, 11.64]    75%      1.0/9.0    15.2    6.00 [0"
        ".53, 10.59]    89% [37%, 100%]",
        "oracle           5:1    0.00 [0.00, 0.00]   0.00 [0.00, 0.00]   100%      0.0/0.0    10.8     0.00 ["
        "0.00, 0.00]  100% [100%, 100%]",
    ]
    titles = [line for line in lines if line.startswith("links of 1")]
    assert titles == [
        "links of 1 node, all loads: 8 windows",
        "links of 1 node, light load (reactive up to 2 h): 2 windows",
        "links of 1 node, medium load (2 to 12 h): 2 windows",
        "links of 1 node, heavy load (more than 12 h): 4 windows",
        "links of 1 node, difference from what-if, window by window, at 1:1: 8 windows",
        "links of 1 node, difference from what-if, window by window, at 5:1: 8 windows",
    ]
    assert " ".join(lines[-5:-3]).replace("  ", " ") == VERDICTS_NOTE
    assert lines[-3].startswith("hours per hand-over; confidence intervals: 95 %, from 4 stretches of 2 d (jack")
    assert lines[-1] == "gap closed: of the cost between reactive and the oracle, - if unknown; seed 0"


def test_a_narrow_terminal_shows_every_mean_whole() -> None:
    lines = [line.rstrip() for line in printed(FEW, 70)]
    assert lines[5:12] == [
        "           cost  interruption  overlap   x ≤",
        "policy    ratio             h        h     0   cost         gap closed",
        "reactive    1:1         10.75     0.00    0%  10.75        0% [0%, 0%]",
        "average     1:1          6.50     1.75   50%   8.25   23% [-140%, 79%]",
        "lead:4      1:1          7.50     0.75   50%   8.25      23% [9%, 82%]",
        "what-if     1:1          3.75     0.25   50%   4.00    63% [48%, 100%]",
        "oracle      1:1          0.00     0.00  100%   0.00  100% [100%, 100%]",
    ]
    assert all(len(line) <= 70 for line in lines)
    assert "…" not in "".join(lines)


def test_no_share_of_the_gap_is_printed_without_its_interval() -> None:
    """On a terminal without room for a table, and in load classes without intervals."""
    lines = printed(FEW, 60)
    shares = [line.split()[2:] for line in lines if line.split()[:2] == ["gap", "closed"]]
    assert shares[:2] == [["0%", "[0%,", "0%]"], ["23%", "[-140%,", "79%]"]]
    light = lines.index("links of 1 node, light load (reactive up to 2 h): 2 windows")
    assert [line.split()[-1] for line in lines[light + 3 : light + 8]] == ["-"] * 5


@pytest.mark.parametrize(("width", "head"), [
    (119, "policy    interruption h  overlap h  x ≤ 0  cost  gap closed"),
    (120, "policy    interruption h  overlap h  x ≤ 0  p95 int/ovl  lead h  cost  gap closed"),
])  # fmt: skip
def test_one_cost_needs_no_column_and_more_is_printed_where_there_is_room(width: int, head: str) -> None:
    lines = printed(evaluation([Cost(1, 1)], windows=2), width)
    light = lines.index("links of 1 node, light load (reactive up to 2 h): 1 window")
    assert lines[light + 1] == head
    assert lines[light + 3].split()[:4] == ["average", "0.00", "5.00", "100%"]


def test_free_overlap_is_marked() -> None:
    cells = [line.split() for line in printed(evaluation([Cost(1, 0), Cost(2, 1)], windows=4), 140)]
    assert [row[1] for row in cells if row[:1] == ["what-if"]][:2] == ["free", "2:1"]


def styled(shown: Evaluation) -> list[list[tuple[str, str]]]:
    """The style of each title and styled row with its first word, for every table."""
    out = io.StringIO()
    console = Console(file=out, width=140, highlight=False, force_terminal=True, color_system="standard")
    print_evaluation(shown, PROVENANCE, console)
    tables = [one.splitlines() for one in out.getvalue().split("\n\n")[1:-1]]
    styled_line = re.compile(r"^\x1b\[([\d;]+)m([^\s\x1b]+)")
    return [[found.groups() for row in one if (found := styled_line.match(row))] for one in tables]


def test_the_cheapest_of_every_cost_is_marked_and_the_oracle_is_pale() -> None:
    every, light, *_ = styled(FEW)
    head, oracle = [("1", "links"), ("2", "policy")], ("2", "oracle")
    assert every == [*head, ("1;32", "what-if"), oracle, ("1;32", "what-if"), oracle]
    assert light == [*head, ("1;32", "reactive"), oracle, ("1;32", "lead:4"), oracle]


def test_links_of_several_nodes_are_named_so() -> None:
    assert "links of 2 nodes, all loads: 4 windows" in printed(evaluation([Cost(1, 1)], windows=4, nodes=2), 140)


def test_a_file_gets_plain_lines_of_one_width(capsys: pytest.CaptureFixture[str]) -> None:
    print_evaluation(FEW, PROVENANCE)
    assert capsys.readouterr().out.splitlines() == printed(FEW, PLAIN_WIDTH)
