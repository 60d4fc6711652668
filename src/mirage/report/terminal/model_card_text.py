"""Card of a model on the terminal: its training data, and its accuracy on later jobs."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mirage.predict.model_file import ModelCard
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.trace.statistics.summary import iso_utc

_SHARES = ("coverage", "within")


def print_model_card(card: ModelCard, console: Console | None = None) -> None:
    """Prints a card as wide as the terminal; fixed width without one."""
    console = console or plain_console()
    data = card.trained_on
    console.print(
        Text.assemble((f"{card.kind} of {data.trace}", "bold"), f", schema {card.schema}, Mirage {card.package}")
    )
    console.print(Text(f"{data.rows:,} jobs, {iso_utc(data.first_s)} to {iso_utc(data.until_s)}"))
    console.print(Text(f"{len(card.features)} features: {', '.join(f'{f.name} ({f.unit})' for f in card.features)}"))
    console.print()
    rows = [(name.replace("_", " "), _written(name, value)) for name, value in card.figures.items()]
    print_table(console, ("on later jobs, held out", ""), rows)


def _written(name: str, value: float) -> str:
    """Formats a figure: shares as percentages, whole numbers without a point."""
    if name.startswith(_SHARES):
        return f"{value:.1%}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
