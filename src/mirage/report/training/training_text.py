"""Training on the terminal: the last step, the method of each link size, and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from mirage.learn.training.method_choice import MethodChoice
from mirage.predict.model_file import ModelCard
from mirage.report.figures import gap_words, links_words
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.report.terminal.evaluation_text import print_evaluation
from mirage.trace.statistics.summary import iso_utc


def print_trained(card: ModelCard, console: Console | None = None) -> None:
    """Prints the method of each link size, and its figures on the tuning slice."""
    console = console or plain_console()
    data = card.trained_on
    title = f"hand-overs of {data.trace}, schema {card.schema}, Mirage {card.package}"
    console.print(Text(title, "bold"))
    if data.rows:
        dates = f"{iso_utc(data.first_s)} to {iso_utc(data.until_s)}"
        console.print(Text(f"{data.rows:,} decisions in windows from {dates}, the last of them for tuning"))
    else:
        console.print(Text("nothing was trained: no method is reliably better than what-if, for any size"))
    console.print()
    rows = []
    for nodes, chosen in card.settings["sizes"].items():
        of_size = {name: card.figures.get(f"{name}_{nodes}") for name in ("windows", "interruption_h", "overlap_h")}
        gap, low, high = (card.figures.get(f"{name}_{nodes}") for name in ("gap_closed", "gap_low", "gap_high"))
        closed = gap_words(gap, None if low is None or high is None else (low, high))
        figures = ["-" if value is None else f"{value:.2f}" for value in list(of_size.values())[1:]]
        windows = "-" if of_size["windows"] is None else f"{of_size['windows']:.0f}"
        rows.append([nodes, chosen["method"], windows, *figures, closed])
    names = ("nodes of a link", "method", "windows tuned on", "interruption h", "overlap h", "gap closed at 1:1")
    print_table(console, names, rows, left=2)
    for nodes, chosen in card.settings["sizes"].items():
        if usage := _usage_words(chosen.get("settings", {}).get("figures", {})):
            console.print(Text(f"experts for {links_words(int(nodes))}: {usage}"))


def _usage_words(figures: Mapping[str, float]) -> str:
    """Describes how a mixture of experts uses them; empty for other models."""
    if "balance" not in figures:
        return ""
    experts = range(sum(name.startswith("expert_") and name.endswith("_weight") for name in figures))
    weights = ", ".join(f"{figures[f'expert_{k}_weight']:.2f}" for k in experts)
    led = ", ".join(f"{figures[f'expert_{k}_led']:.0%}" for k in experts)
    return f"mean weights {weights}; they lead {led} of the decisions; balance {figures['balance']:.2f} of 1"


def print_choices(
    choices: Sequence[MethodChoice], evaluation: Any, provenance: dict[str, Any], console: Console
) -> None:
    """Prints the results of the test months, and the choice for each link size."""
    print_evaluation(evaluation, provenance, console, by_month=True)
    console.print()
    for choice in choices:
        console.print(Text(f"{links_words(choice.link_nodes)}: {choice.method}", "bold"), end=" ")
        console.print(Text(f"– {choice.reason}"))
