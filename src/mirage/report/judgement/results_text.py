"""Results of a comparison on the terminal: the main tables, and findings."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.report.figures import links_words
from mirage.report.judgement.findings import claims_words, findings
from mirage.report.judgement.result_cells import at
from mirage.report.judgement.result_tables import ResultsView, main_cells
from mirage.report.terminal.console_table import plain_console, print_table

_STYLES = {"bound": "dim", "ours": "green"}


def print_comparison(comparison: MethodComparison, console: Console | None = None) -> None:
    """Prints a comparison to standard output; fixed width if that is no terminal."""
    console = console or plain_console()
    ratios = list(dict.fromkeys(row.cost_ratio for row in comparison.evaluation.rows))
    for nodes in comparison.evaluation.trials:
        for ratio in ratios:
            view = ResultsView(comparison, nodes, ratio)
            heads, rows = main_cells(view)
            console.print(Text(f"{links_words(nodes)} {at(ratio)}", "bold"))
            plain = [[cell.replace("`", "").replace("**", "") for cell in row] for row in rows]
            styles = [_STYLES.get(row[0], "") for row in rows]
            print_table(console, [head.replace("`", "") for head in heads], plain, left=2, styles=styles)
            console.print(Text(findings(view).replace("`", "").replace("**", "")))
            console.print()
        console.print(Text(claims_words(comparison, nodes).replace("`", "").replace("**", "")))
        console.print()
