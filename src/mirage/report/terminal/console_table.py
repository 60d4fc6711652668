"""Tables for terminals of any width: no cell is cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

Cell = str | Text

PLAIN_WIDTH = 200
"""Width of all tables outside a terminal: files and pipes do not fold, and lines stay whole."""

_ANY = 10_000
"""A terminal width at which any table fits."""


def plain_console() -> Console:
    """Returns standard output: as wide as its terminal, or ``PLAIN_WIDTH`` outside one."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def print_table(
    console: Console, names: Sequence[str], rows: Sequence[Sequence[Cell]], *, left: int = 1, styles: Sequence[str] = ()
) -> None:
    """Prints a table; if it is too wide, with folded heads or a line for every cell.

    Args:
        console: The console to print to.
        names: Column names.
        rows: Cells of each row.
        left: Number of columns that are aligned to the left: text; the others are numbers.
        styles: One for each row, in the notation of rich.
    """
    styles = styles or [""] * len(rows)
    table = _fitting(console, names, rows, left, styles)
    if table is not None:
        console.print(table)
        return
    for row, style in zip(rows, styles):
        _print_record(console, names, row, style)


def fits(console: Console, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether there is room for a table, if need be with folded heads."""
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
        table.add_column(Text(head), justify="left" if k < left else "right", no_wrap=True, vertical="bottom")
    for row, style in zip(rows, styles):
        table.add_row(*(_as_text(cell) for cell in row), style=style)
    return table


def _as_text(cell: Cell) -> Text:
    """Returns a cell as it is: rich would take ``[new]`` in the path of a policy for a style."""
    return Text(cell) if isinstance(cell, str) else cell


def _folded(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Returns the heads, broken between words where they are wider than the cells below."""
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
    """Prints a row as a line for each of its cells, under the first."""
    console.print(Text(str(row[0]), style))
    widest = max(len(name) for name in names)
    for name, cell in zip(names[1:], row[1:]):
        console.print(Text.assemble((f"  {name:<{widest}}", "dim"), "  ", cell), soft_wrap=True)
