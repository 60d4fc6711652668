"""The terminal's reports line by line: every figure, and the styles for emphasis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.policy_score import EvaluationRow
from mirage.report.terminal.demo_text import print_demonstration, stages
from mirage.report.terminal.evaluation_text import print_evaluation
from tests.support.printed_text import on_a_terminal, printed
from tests.support.report_samples import PROVENANCE, demonstration

# -- the demonstration --------------------------------------------------------------------------------------


def test_what_the_demonstration_s_chains_lost() -> None:
    lines = printed(lambda console: print_demonstration(demonstration(), "out.html", console), 100)
    assert lines[0] == (
        "<bold>76 nodes</>, 1,234 jobs in two weeks, 93% busy; waits: median 49.5 h, 95 % up to 94.0 h, longest 99.0 h"
    )
    assert lines[1] == "<dim>busy    </><green>" + "▇▇▇███" * 14 + "</>"
    assert lines[2] == "<dim>queued  </><yellow>" + "▁▂▂▃▄▄▅▅▆▇▇█" * 7 + "</>"
    assert lines[3:] == [
        "",
        "<dim>links of  policy    interruption  longest  overlap  alive   cost</>",
        "8 nodes   reactive  <red>      48.0 h</>   12.0 h  <green>  0.0 h</>  85.7%  144.0",
        "8 nodes   what-if   <red>     150.0 h</>  150.0 h  <yellow>  6.0 h</>  55.4%  456.0",
        "8 nodes   auto      <red>       6.0 h</>    6.0 h  <yellow>  6.0 h</>  98.2%   24.0",
        "",
        "<dim>cost: an hour of interruption to an hour of overlap as 3:1; seed 7</>",
        "report: <bold>out.html</>",
    ]


@pytest.mark.parametrize(("lost_s", "style"), [(3599, "green"), (3600, "red")])
def test_an_hour_lost_is_red(lost_s: int, style: str) -> None:
    demo = demonstration()
    run = demo.runs[8, "what-if"]
    first, second = run.links[:2]
    links = (first, replace(second, started_s=first.ends_s + lost_s))
    alone = replace(demo, runs={(1, "what-if"): replace(run, links=links, until_s=second.ends_s)})
    lines = printed(lambda console: print_demonstration(alone, "x", console), 100)
    (line,) = [line for line in lines if "what-if" in line]
    assert line.startswith(f"1 node    what-if  <{style}>       1.0 h</>    1.0 h  <green>  0.0 h</>")


def test_a_narrow_terminal_gets_a_shorter_picture() -> None:
    lines = printed(lambda console: print_demonstration(demonstration(), "x", console), 50)
    (busy,) = [line for line in lines if line.startswith("<dim>busy")]
    assert len(busy) == len("<dim>busy    </><green></>") + 42


def test_stages_print_on_a_terminal_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "playing …" in on_a_terminal(monkeypatch, lambda: stages(), "playing")


# -- an evaluation ------------------------------------------------------------------------------------------


def row(policy: str, load: str = "all", ratio: float | None = 5.0, nodes: int = 1, **known: Any) -> EvaluationRow:
    figures = {
        "windows": 12, "interruption_h": 1.5, "overlap_h": 0.25, "interruption_median_h": 1.0, "overlap_median_h": 0.0,
        "interruption_p95_h": 4.26, "overlap_p95_h": 1.24, "lead_h": 6.54, "zero_share": 0.625, "cost": 7.75,
        "gap_closed": 0.345, "interruption_95": (1.0, 2.0), "overlap_95": (0.1, 0.4), "cost_95": (7.0, 8.5),
        "gap_closed_95": (0.3, 0.4),
    }  # fmt: skip
    return EvaluationRow(policy=policy, link_nodes=nodes, load=load, cost_ratio=ratio, **figures | known)


def judged(*rows: EvaluationRow, costs: tuple[Cost, ...] = (Cost(5, 1),), nodes: tuple[int, ...] = (1,)) -> Evaluation:
    return Evaluation(
        trials={size: () for size in nodes}, rows=rows, policies=(), costs=costs, reused=0, intervals="by weeks"
    )


def lines_of(evaluation: Evaluation, width: int) -> list[str]:
    return printed(lambda console: print_evaluation(evaluation, PROVENANCE, console), width)


BARE = {"interruption_95": None, "overlap_95": None, "cost_95": None}


def test_an_evaluation_on_a_wide_terminal() -> None:
    rows = (
        row("reactive", cost=32.25, gap_closed=None, **BARE),
        row("what-if"),
        row("oracle", cost=1.0, gap_closed=1.0, zero_share=1.0),
    )
    assert lines_of(judged(*rows), 150) == [
        "data/jobs.csv: 60 windows from 2024-10-04T00:00:00Z, one every 04:00:00, protocol warm, slurm on 76 nodes, "
        "settings lonestar6",
        "links of a newcomer, hand-over 1",
        "",
        "<bold>links of 1 node, all loads: 12 windows</>",
        "<dim>policy       interruption h          overlap h  x ≤ 0  p95 int/ovl  lead h               cost"
        "       gap closed</>",
        "reactive               1.50               0.25    62%      4.3/1.2     6.5              32.25"
        "                -",
        "<bold green>what-if   1.50 [1.00, 2.00]  0.25 [0.10, 0.40]    62%      4.3/1.2     6.5  7.75 [7.00, 8.50]"
        "   34% [30%, 40%]</>",
        "<dim>oracle    1.50 [1.00, 2.00]  0.25 [0.10, 0.40]   100%      4.3/1.2     6.5  1.00 [7.00, 8.50]"
        "  100% [30%, 40%]</>",
        "",
        "<dim>hours per hand-over; confidence intervals: by weeks</>",
        "<dim>gap closed: of the cost between reactive and the oracle, - if unknown; seed 0</>",
    ]


@pytest.mark.parametrize(("width", "wide"), [(120, True), (119, False)])
def test_more_columns_where_there_is_room(width: int, wide: bool) -> None:
    heads = "".join(line for line in lines_of(judged(row("what-if")), width) if line.startswith("<dim>policy"))
    assert ("p95 int/ovl  lead h" in heads) is wide


def test_intervals_are_left_out_where_there_is_no_room() -> None:
    lines = lines_of(judged(row("what-if")), 62)
    (line,) = [line for line in lines if "what-if" in line]
    cells = line.removeprefix("<bold green>").removesuffix("</>").split()
    assert cells == ["what-if", "1.50", "0.25", "62%", "7.75", "34%", "[30%,", "40%]"]


def test_several_costs_have_a_column_and_a_best_each() -> None:
    rows = (
        row("lead:4", cost=3.0, **BARE),
        row("what-if", cost=2.0, **BARE),
        row("lead:4", cost=3.0, ratio=None, **BARE),
        row("what-if", cost=4.0, ratio=None, **BARE),
        row("oracle", cost=0.0, ratio=None, **BARE),
    )
    lines = lines_of(judged(*rows, costs=(Cost(5, 1), Cost(1, 0))), 100)
    assert lines[5:11] == [
        "<dim>policy   cost ratio  interruption h  overlap h  x ≤ 0  cost      gap closed</>",
        "lead:4          5:1            1.50       0.25    62%  3.00  34% [30%, 40%]",
        "<bold green>what-if         5:1            1.50       0.25    62%  2.00  34% [30%, 40%]</>",
        "<bold green>lead:4         free            1.50       0.25    62%  3.00  34% [30%, 40%]</>",
        "what-if        free            1.50       0.25    62%  4.00  34% [30%, 40%]",
        "<dim>oracle         free            1.50       0.25    62%  0.00  34% [30%, 40%]</>",
    ]


def test_every_size_of_link_and_every_load_class_has_a_table() -> None:
    rows = [row("what-if", load, nodes=nodes, windows=7) for nodes in (8, 1) for load in ("heavy", "all", "light")]
    rows.append(row("what-if", "medium", nodes=1, windows=3))
    titles = [line for line in lines_of(judged(*rows, nodes=(8, 1)), 100) if line.startswith("<bold>links")]
    assert titles == [
        "<bold>links of 8 nodes, all loads: 7 windows</>",
        "<bold>links of 8 nodes, light load (reactive up to 2 h): 7 windows</>",
        "<bold>links of 8 nodes, heavy load (more than 12 h): 7 windows</>",
        "<bold>links of 1 node, all loads: 7 windows</>",
        "<bold>links of 1 node, light load (reactive up to 2 h): 7 windows</>",
        "<bold>links of 1 node, medium load (2 to 12 h): 3 windows</>",
        "<bold>links of 1 node, heavy load (more than 12 h): 7 windows</>",
    ]


def test_where_only_the_oracle_was_judged_nothing_is_best() -> None:
    lines = lines_of(judged(row("oracle", **BARE)), 100)
    assert lines[6].startswith("<dim>oracle")


def test_without_a_terminal_there_is_room_enough(capsys: pytest.CaptureFixture[str]) -> None:
    print_evaluation(judged(row("what-if")), PROVENANCE)
    written = capsys.readouterr().out
    assert "p95 int/ovl" in written
    assert "1.50 [1.00, 2.00]" in written
    assert "\x1b" not in written
