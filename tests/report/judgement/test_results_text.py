"""The results of a comparison on the terminal."""

from __future__ import annotations

from dataclasses import replace

from mirage.learn.training.comparison.method_comparison import judged
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.report.judgement.results_text import print_comparison
from tests.support.made_up_windows import four_windows
from tests.support.method_comparison import plan
from tests.support.printed_text import printed


def lines_of(*costs: Cost) -> list[str]:
    names = ("correction", "xgboost-2023", "what-if", "true-run-times")
    keys = [Candidate(name, cost).key for name in names for cost in costs]
    windows = tuple(
        replace(trial, chosen={"average": 1, "lead:4": 1, **dict.fromkeys(keys, place)})
        for place in (0, 1)
        for trial in four_windows()
    )
    comparison = judged(plan(costs=costs), {2: windows})
    return printed(lambda console: print_comparison(comparison, console), 2000)


def test_the_table_is_followed_by_findings_and_claims() -> None:
    head, names, *rows, found, gap, claimed, end = lines_of(Cost(1, 1))
    assert head == "<bold>links of 2 nodes at 1 : 1</>"
    assert " ".join(names.split()) == (
        "<dim> policy interruption / overlap, h without interruption cost gap closed cost minus that of what-if</>"
    )
    assert [" ".join(line.split()) for line in rows] == [
        "published average 1.50 / 1.50 50 % 3.00 (1.16 … 4.84) – -0.75 (-6.62 … +7.99)",
        "published reactive 4.75 / 0.00 25 % 4.75 (0.00 … 32.66) 0 % (0 … 0) +1.00 (-10.53 … +46.46)",
        "published xgboost-2023 0.88 / 2.88 62 % 3.75 (1.11 … 12.49) – +0.00 (-5.87 … +5.87)",
        "<green>ours what-if, correction 0.88 / 2.88 62 % 3.75 (1.11 … 12.49) – </>",
        "baseline lead:4 1.50 / 1.50 50 % 3.00 (1.16 … 4.84) – -0.75 (-6.62 … +7.99)",
        "<dim>bound oracle, exact-wait 1.00 / 0.00 25 % 1.00 (0.00 … 2.30) 100 % (100 … 100) -2.75 (-16.00 … +1.07)</>",
        "<dim>bound true-run-times 0.88 / 2.88 62 % 3.75 (1.11 … 12.49) – +0.00 (-5.87 … +5.87)</>",
    ]
    assert [line.index("correction") - 9 for line in rows if "what-if" in line] == [rows[0].index("average") + 7]
    assert found.startswith("Links of 2 nodes at 1 : 1. The cheapest published method is average (1.50 / 1.50 h, ")
    assert found.endswith("Nothing costs less than reactive beyond doubt.")
    assert claimed.startswith("Links of 2 nodes. In medium and heavy load the published methods")
    assert (gap, end) == ("", "")
    assert not {"`", "*"} & set("".join(lines_of(Cost(1, 1))))


def test_every_cost_has_a_table() -> None:
    heads = [line for line in lines_of(Cost(3, 1), Cost(1, 0)) if line.startswith("<bold>")]
    assert heads == ["<bold>links of 2 nodes at 3 : 1</>", "<bold>links of 2 nodes with free overlap</>"]
