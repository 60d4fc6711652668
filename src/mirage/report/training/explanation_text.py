"""Explanations on the terminal and as JSON: the tree, its agreement with the policy, cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.distill.tree_text import INDENT, text_of
from mirage.errors import quantity
from mirage.learn.explain.policy_explanation import TREE, Explanation
from mirage.learn.explain.readable_columns import columns_named
from mirage.learn.explain.tree_fidelity import HandOverFidelity, day
from mirage.learn.training.trained_policy import WHAT_IF
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.paired import VERDICTS_NOTE
from mirage.provision.evaluation.policy_score import ALL, EvaluationRow
from mirage.report.figures import gap_words, links_words, mean_words
from mirage.report.terminal.console_table import print_table
from mirage.report.terminal.evaluation_text import at_cost, print_differences, signed


def tree_file(explained: Explanation) -> str:
    """Returns the text of the tree, with its description and features as remarks.

    The text is a policy.
    """
    head, *rest = text_of(explained.tree).splitlines()
    meanings = {
        f"{INDENT}{c.feature.name}: {c.feature.unit}": c.meaning for c in columns_named(explained.tree.features)
    }
    widest = max(map(len, meanings))
    remarks = [f"# {line}" for line in head_lines(explained)]
    rest = [f"{line:<{widest}}  # {meanings[line]}" if line in meanings else line for line in rest]
    return "\n".join([head, *remarks, *rest]) + "\n"


def head_lines(explained: Explanation) -> list[str]:
    """Returns a summary to read before the tree: its agreement with the policy, and its cost."""
    agrees = explained.fidelity
    found = [
        f"Judged on {agrees.windows} hand-overs from {day(explained.until_s)} on, which it was not fitted to. Equal to "
        "the policy:",
        f"{_share(agrees.equal_decisions)} of the decisions (always waiting: {_share(agrees.waits)}), "
        f"{_share(agrees.equal_hand_overs)} of the hand-overs, {_share(agrees.near_hand_overs)} within a step; "
        f"{agrees.apart_h:.2f} h apart in the mean.",
    ]
    evaluation = explained.evaluation
    every = [row for row in evaluation.rows if row.load == ALL]
    for nodes, ratio in dict.fromkeys((row.link_nodes, row.cost_ratio) for row in every):
        cost = {row.policy: f"{row.cost:.2f}" for row in every if (row.link_nodes, row.cost_ratio) == (nodes, ratio)}
        others = [name for name in (WHAT_IF, REACTIVE) if name in cost and name != explained.policy]
        other_costs = "".join(f", {name} {cost[name]}" for name in others)
        less = next(
            signed(d.cost, d.cost_95)
            for d in evaluation.differences
            if (d.policy, d.link_nodes, d.cost_ratio, d.load, d.month) == (TREE, nodes, ratio, ALL, ALL)
        )
        found.append(
            f"Cost of a hand-over, {links_words(nodes)}{at_cost(evaluation, ratio)}: tree {cost[TREE]}, policy "
            f"{cost[explained.policy]} (difference {less}){other_costs}."
        )
    return found


def explanation_json(explained: Explanation, provenance: dict[str, Any]) -> dict[str, Any]:
    """Returns plain values for JSON."""
    evaluation = explained.evaluation
    return {
        "policy": explained.policy,
        "tree": tree_file(explained),
        "leaves": len(explained.tree.leaves),
        "until": day(explained.until_s),
        "fitted_windows": explained.fitted_windows,
        "choice_windows": explained.choice_windows,
        "outside_share": explained.outside_share,
        "fidelity": asdict(explained.fidelity),
        "months": [{"month": month} | asdict(agrees) for month, agrees in explained.by_month],
        "sizes": [asdict(size) for size in explained.sizes],
        "rows": [row.to_json() for row in evaluation.rows],
        "differences": [difference.to_json() for difference in evaluation.differences],
        "leaves_apart": [asdict(leaf) for leaf in explained.leaves],
        "windows_apart": [asdict(window) for window in explained.windows],
        **provenance,
    }


def print_explanation(explained: Explanation, notes: Sequence[str], console: Console) -> None:
    """Prints the tree and all known figures.

    Args:
        notes: Further remarks, a sentence each.
    """
    console.print(Text(tree_file(explained)), soft_wrap=True)
    _print_fidelity(explained, console)
    _print_sizes(explained, console)
    _print_frontier(explained, console)
    print_differences(console, explained.evaluation, by_month=False)
    _print_apart(explained, console)
    console.print()
    for note in notes:
        console.print(Text(note, "dim"))
    console.print(Text(VERDICTS_NOTE, "dim"))
    console.print(Text(f"hours per hand-over; confidence intervals: {explained.evaluation.intervals}", "dim"))


def _print_fidelity(explained: Explanation, console: Console) -> None:
    ratio = f"{explained.cost.interruption:g}:{explained.cost.overlap:g}"
    first = Text(f"{explained.policy} at {ratio}", "bold")
    first.append(
        f": {len(explained.tree.leaves)} leaves, fitted to {explained.fitted_windows} hand-overs completed by "
        f"{day(explained.until_s)} (the last {explained.choice_windows} selected its size); the rest is for "
        f"{explained.fidelity.windows} later ones",
        "not bold",
    )
    console.print(first)
    console.print()
    several = explained.by_month if len(explained.by_month) > 1 else ()
    names = [
        "month",
        "windows",
        "decisions",
        "equal",
        "if it always waits",
        "equal hand-overs",
        "within a step",
        "h apart",
    ]
    rows = [_agreement(month, agrees) for month, agrees in several]
    print_table(console, names, [*rows, _agreement(ALL, explained.fidelity)])


def _agreement(month: str, agrees: HandOverFidelity) -> list[str]:
    return [
        month,
        str(agrees.windows),
        f"{agrees.decisions:,}",
        _share(agrees.equal_decisions),
        _share(agrees.waits),
        _share(agrees.equal_hand_overs),
        _share(agrees.near_hand_overs),
        f"{agrees.apart_h:.2f}",
    ]


def _print_sizes(explained: Explanation, console: Console) -> None:
    console.print()
    console.print(Text("trees of several sizes", "bold"))
    names = ["leaves", "equal decisions", "equal hand-overs", "within a step", "cost"]
    rows = [
        [
            str(size.leaves),
            *map(_share, (size.equal_decisions, size.equal_hand_overs, size.near_hand_overs)),
            f"{size.cost:.2f}",
        ]
        for size in explained.sizes
    ]
    print_table(console, names, rows)


def _print_frontier(explained: Explanation, console: Console) -> None:
    """Prints the position of the tree between the bounds, over all loads."""
    evaluation = explained.evaluation
    for nodes in evaluation.trials:
        for ratio in dict.fromkeys(row.cost_ratio for row in evaluation.rows):
            rows = [row for row in evaluation.rows if (row.link_nodes, row.load, row.cost_ratio) == (nodes, ALL, ratio)]
            console.print()
            title = f"{links_words(nodes)}{at_cost(evaluation, ratio)}: {quantity(rows[0].windows, 'window')}"
            console.print(Text(title, "bold"))
            names = ["policy", "interruption h", "overlap h", "x ≤ 0", "cost", "gap closed"]
            styles = ["bold" if row.policy == TREE else "" for row in rows]
            print_table(console, names, [_cells(row) for row in rows], styles=styles)


def _cells(row: EvaluationRow) -> list[str]:
    return [
        row.policy,
        f"{row.interruption_h:.2f}",
        f"{row.overlap_h:.2f}",
        f"{row.zero_share:.0%}",
        mean_words(row.cost, row.cost_95),
        gap_words(row.gap_closed, row.gap_closed_95),
    ]


def _print_apart(explained: Explanation, console: Console) -> None:
    """Prints where the tree and its policy differ most."""
    if explained.leaves:
        console.print()
        console.print(Text("leaves that the policy contradicts most often", "bold"))
        for leaf in explained.leaves:
            console.print(Text(f"{leaf.apart} of {leaf.decisions:,} decisions: {leaf.answer}"), soft_wrap=True)
    if explained.windows:
        console.print()
        console.print(Text("hand-overs with the largest difference in cost from the policy", "bold"))
        names = ["window", "nodes", "policy h ahead", "its gap h", "tree h ahead", "its gap h", "cost"]
        rows = [
            [
                apart.window,
                str(apart.link_nodes),
                f"{apart.policy_lead_h:.1f}",
                f"{apart.policy_gap_h:+.2f}",
                f"{apart.tree_lead_h:.1f}",
                f"{apart.tree_gap_h:+.2f}",
                f"{apart.cost:+.2f}",
            ]
            for apart in explained.windows
        ]
        print_table(console, names, rows)


def _share(share: float) -> str:
    """Formats a share in per cent; only a share of 1 is rounded to 100 %."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.1f} %"
