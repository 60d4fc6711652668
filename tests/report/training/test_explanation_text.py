"""An explanation word by word: tree and remarks, tables, where tree and policy differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirage.distill.tree_reading import tree_of
from mirage.learn.explain.policy_explanation import TREE, Explanation, SizePoint
from mirage.learn.explain.tree_fidelity import HandOverFidelity, LeafDifference, WindowDifference
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.paired import VERDICTS_NOTE
from mirage.report.training.explanation_text import explanation_json, head_lines, print_explanation, tree_file
from tests.support.made_up_results import less, row
from tests.support.printed_text import printed

RULE = """\
tree: 1
features:
    remaining: duration
    pending_jobs: number
answers: wait, submit

if remaining < 2h:
    submit
else:
    if pending_jobs < 60:
        wait
    else:
        submit
"""
UNTIL_S = 1_706_745_600  # 2024-02-01
FIDELITY = HandOverFidelity(12, 3456, 0.9995, 0.75, 1.0, 0.356, 0.912)
PAIRED = {"against": "ours", "interruption_h": 0.5, "overlap_h": -0.25}


def explained(**changes: Any) -> Explanation:
    rows = (
        row("ours", 7.0, 1.0), row(TREE, 7.5, 1.0, gap_closed=0.25, cost_95=(7.0, 8.5)), row("what-if", 8.0, 1.0),
        row("reactive", 12.0, 1.0, gap_closed=None), row("oracle", 1.0, 1.0), row(TREE, 99.0, 1.0, load="heavy"),
    )  # fmt: skip
    evaluation = Evaluation(
        trials={8: ()}, rows=rows, policies=(), costs=(Cost(1, 1),), reused=0, intervals="by weeks",
        differences=(less("what-if", 1.0, 0.5, 1.0, **PAIRED), less(TREE, 0.5, 0.25, 1.0, **PAIRED)),
    )  # fmt: skip
    values = {
        "policy": "ours", "cost": Cost(1, 1), "until_s": UNTIL_S, "fitted_windows": 40, "choice_windows": 13,
        "tree": tree_of(RULE), "fidelity": FIDELITY,
        "by_month": (("2024-02", FIDELITY), ("2024-03", replace(FIDELITY, windows=5, decisions=999, apart_h=1.5))),
        "sizes": (SizePoint(1, 0.9, 0.25, 0.5, 9.0), SizePoint(3, 0.9995, 0.75, 1.0, 7.456)),
        "evaluation": evaluation, "leaves": (LeafDifference("wait, as pending_jobs < 60", 1234, 56),),
        "windows": (WindowDifference("2024-02-03T04:00:00Z", 8, 6.25, 4.0, 0.5, -1.75, 2.25),), "outside_share": 0.0,
    }  # fmt: skip
    return Explanation(**values | changes)


def words(line: str) -> str:
    return " ".join(line.split())


def shown(found: Explanation, *notes: str) -> list[str]:
    return [words(line) for line in printed(lambda console: print_explanation(found, notes, console), 200)]


def test_a_summary_stands_before_the_tree() -> None:
    assert head_lines(explained()) == [
        "Judged on 12 hand-overs from 2024-02-01 on, which it was not fitted to. Equal to the policy:",
        "99.9 % of the decisions (always waiting: 91.2 %), 75.0 % of the hand-overs, 100 % within a step; 0.36 h apart "
        "in the mean.",
        "Cost of a hand-over, links of 8 nodes: tree 7.50, policy 7.00 (difference +0.50 [+0.25, +0.75]), what-if "
        "8.00, reactive 12.00.",
    ]
    lines = tree_file(explained()).splitlines()
    assert lines[0] == "tree: 1"
    assert lines[1:4] == [f"# {line}" for line in head_lines(explained())]
    assert lines[4] == "features:"
    assert lines[5].startswith("    remaining: duration   # ")
    assert lines[6].startswith("    pending_jobs: number  # ")
    assert lines[7:] == RULE.splitlines()[4:]
    assert tree_of(tree_file(explained())) == tree_of(RULE)


def test_a_policy_is_not_compared_with_itself() -> None:
    evaluation = explained().evaluation
    both = (*(replace(one, cost_ratio=None, cost=one.cost / 2) for one in evaluation.rows[:4]), *evaluation.rows)
    paired = (replace(evaluation.differences[1], cost_ratio=None, cost=0.125, cost_95=None), *evaluation.differences)
    several = replace(evaluation, rows=both, differences=paired, costs=(Cost(1, 0), Cost(1, 1)))
    _, _, free, equal = head_lines(explained(evaluation=several, policy="what-if"))
    assert free == (
        "Cost of a hand-over, links of 8 nodes, overlap free: tree 3.75, policy 4.00 (difference +0.12), reactive 6.00."
    )
    assert equal.startswith("Cost of a hand-over, links of 8 nodes, at 1:1: tree 7.50, policy 8.00 (difference +0.50 [")


def test_all_tables_are_printed() -> None:
    lines = shown(explained(), "a note", "another")
    tree = [words(line.replace("<", "")) for line in tree_file(explained()).splitlines()]  # "<" begins a style here
    assert lines[: len(tree) + 1] == [*tree, ""]
    assert lines[len(tree) + 1 :] == [
        "<bold>ours at 1:1</>: 3 leaves, fitted to 40 hand-overs completed by 2024-02-01 (the last 13 selected its "
        "size); the rest is for 12 later ones",
        "",
        "<dim>month windows decisions equal if it always waits equal hand-overs within a step h apart</>",
        "2024-02 12 3,456 99.9 % 91.2 % 75.0 % 100 % 0.36",
        "2024-03 5 999 99.9 % 91.2 % 75.0 % 100 % 1.50",
        "all 12 3,456 99.9 % 91.2 % 75.0 % 100 % 0.36",
        "",
        "<bold>trees of several sizes</>",
        "<dim>leaves equal decisions equal hand-overs within a step cost</>",
        "1 90.0 % 25.0 % 50.0 % 9.00",
        "3 99.9 % 75.0 % 100 % 7.46",
        "",
        "<bold>links of 8 nodes: 30 windows</>",
        "<dim>policy interruption h overlap h x ≤ 0 cost gap closed</>",
        "ours 1.50 0.25 62% 7.00 34% [30%, 40%]",
        "<bold>its tree 1.50 0.25 62% 7.50 [7.00, 8.50] 25% [30%, 40%]</>",
        "what-if 1.50 0.25 62% 8.00 34% [30%, 40%]",
        "reactive 1.50 0.25 62% 12.00 -",
        "oracle 1.50 0.25 62% 1.00 34% [30%, 40%]",
        "",
        "<bold>links of 8 nodes, difference from ours, window by window: 30 windows</>",
        "<dim>policy cost interruption h overlap h </>",
        "<red>what-if +1.00 [+0.50, +1.50] +0.50 -0.25 worse</>",
        "<red>its tree +0.50 [+0.25, +0.75] +0.50 -0.25 worse</>",
        "",
        "<bold>leaves that the policy contradicts most often</>",
        "56 of 1,234 decisions: wait, as pending_jobs 60",
        "",
        "<bold>hand-overs with the largest difference in cost from the policy</>",
        "<dim>window nodes policy h ahead its gap h tree h ahead its gap h cost</>",
        "2024-02-03T04:00:00Z 8 6.2 +0.50 4.0 -1.75 +2.25",
        "",
        "<dim>a note</>",
        "<dim>another</>",
        f"<dim>{VERDICTS_NOTE}</>",
        "<dim>hours per hand-over; confidence intervals: by weeks</>",
    ]
    single = shown(explained(by_month=explained().by_month[:1]))
    assert not [line for line in single if line.startswith("2024-02 ")]


def test_what_does_not_differ_is_left_out() -> None:
    lines = shown(explained(leaves=(), windows=()))
    assert not [line for line in lines if "contradicts" in line or "largest difference" in line]


def test_the_values_in_json() -> None:
    plain = explanation_json(explained(outside_share=0.125), {"seed": 5})
    names = ("policy", "leaves", "until", "fitted_windows", "choice_windows", "seed")
    assert {name: plain[name] for name in names} == {
        "policy": "ours", "leaves": 3, "until": "2024-02-01", "fitted_windows": 40, "choice_windows": 13, "seed": 5,
    }  # fmt: skip
    assert (plain["outside_share"], plain["tree"]) == (0.125, tree_file(explained()))
    assert (plain["fidelity"]["decisions"], plain["fidelity"]["waits"]) == (3456, 0.912)
    assert [(one["month"], one["windows"], one["apart_h"]) for one in plain["months"]] == [
        ("2024-02", 12, 0.356), ("2024-03", 5, 1.5)
    ]  # fmt: skip
    assert plain["sizes"][1] == {
        "leaves": 3, "equal_decisions": 0.9995, "equal_hand_overs": 0.75, "near_hand_overs": 1.0, "cost": 7.456,
    }  # fmt: skip
    assert [(one["policy"], one["cost"]) for one in plain["rows"]][:2] == [("ours", 7.0), (TREE, 7.5)]
    assert [(one["policy"], one["verdict"]) for one in plain["differences"]] == [("what-if", "worse"), (TREE, "worse")]
    assert plain["leaves_apart"] == [{"answer": "wait, as pending_jobs < 60", "decisions": 1234, "apart": 56}]
    assert plain["windows_apart"][0]["tree_lead_h"] == 4.0
    assert set(plain) >= {"policy", "tree", "months"}
