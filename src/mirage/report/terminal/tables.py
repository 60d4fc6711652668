"""Tables for terminals of any width: no cell is ever cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

Cell = str | Text

_ANY = 10_000
"""A terminal so wide that any table fits."""


def print_table(
    console: Console, names: Sequence[str], rows: Sequence[Sequence[Cell]], *, left: int = 1, styles: Sequence[str] = ()
) -> None:
    """Print a table; with folded heads or a line for every cell where it is too wide.

    Args:
        console: Where to.
        names: Of the columns.
        rows: Their cells.
        left: How many columns are aligned to the left: words; the others are numbers.
        styles: One for each row, as rich names them.
    """
    styles = styles or [""] * len(rows)
    table = _fitting(console, names, rows, left, styles)
    if table is not None:
        console.print(table)
        return
    for row, style in zip(rows, styles):
        _print_record(console, names, row, style)


def fits(console: Console, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether there is room for a table as such, with folded heads at worst."""
    return _fitting(console, names, rows, 1, [""] * len(rows)) is not None


def _fitting(
    console: Console, names: Sequence[str], rows: Sequence[Sequence[Cell]], left: int, styles: Sequence[str]
) -> Table | None:
    for heads in (names, _folded(names, rows)):
        table = _table(heads, rows, left, styles)
        if console.measure(table, options=console.options.update(width=_ANY)).maximum <= console.width:
            return table
    return None


def _table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], left: int, styles: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, head in enumerate(heads):
        table.add_column(head, justify="left" if k < left else "right", no_wrap=True, vertical="bottom")
    for row, style in zip(rows, styles):
        table.add_row(*row, style=style)
    return table


def _folded(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The heads, broken between words where they are wider than what stands below."""
    heads = []
    for k, name in enumerate(names):
        widest = max((len(str(row[k])) for row in rows), default=0)
        lines = [""]
        for word in name.split():
            longer = f"{lines[-1]} {word}".strip()
            lines = [*lines[:-1], longer] if len(longer) <= widest or not lines[-1] else [*lines, word]
        heads.append("\n".join(lines))
    return heads


def _print_record(console: Console, names: Sequence[str], row: Sequence[Cell], style: str) -> None:
    """A row as a line for each of its cells, under the first."""
    console.print(Text(str(row[0]), style))
    widest = max(len(name) for name in names)
    for name, cell in zip(names[1:], row[1:]):
        console.print(Text.assemble((f"  {name:<{widest}}", "dim"), "  ", cell), soft_wrap=True)
