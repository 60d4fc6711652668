"""A self-contained HTML page: nothing to fetch, light and dark, readable on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mirage.report.chart import sample
from mirage.report.picture import MIDDLE, NARROW, WIDE, Picture
from mirage.report.svg import element, mark_svg, svg_of, words
from mirage.report.theme import CHART, COLOURS, FONT

_STYLE = (
    f"body {{ margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 {FONT}; }}"
    """
main { max-width: 1000px; margin: 0 auto; padding: 40px 20px 64px; }
header { display: grid; grid-template-columns: 1fr auto; gap: 0 16px; align-items: start; }
header .lead { grid-column: 1 / -1; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.02em; margin: 0 0 8px; }
h2 { font-size: 18px; margin: 0 0 4px; letter-spacing: -0.01em; }
p { margin: 0 0 12px; max-width: 72ch; } .whole { white-space: nowrap; } .lead { color: var(--muted); font-size: 17px; }
section, .tile { background: var(--card); border: 1px solid var(--faint); border-radius: 12px; }
section { padding: 20px 22px; margin: 20px 0; }
section > p { color: var(--muted); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 14px; margin: 22px 0; }
.tile { padding: 14px 18px; }
.tile .name { color: var(--muted); font-size: 13px; }
.tile .value { font-size: 28px; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25; }
.tile .note { color: var(--muted); font-size: 13px; }
.place { container-type: inline-size; margin: 10px 0 14px; }
.place .narrow, .place .middle { display: none; }
.narrow .chart { max-width: 440px; } .middle .chart { max-width: 830px; }
@container (max-width: 864px) { .place .middle { display: block; } .place .wide { display: none; } }
@container (max-width: 589px) { .place .narrow { display: block; } .place .middle { display: none; } }
.scroll { overflow-x: auto; }
.scroll { background: linear-gradient(90deg, var(--card) 30%, transparent) 0 0 / 40px 100% no-repeat local,
  linear-gradient(270deg, var(--card) 30%, transparent) 100% 0 / 40px 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) 0 0 / 10px 100% no-repeat scroll,
  linear-gradient(270deg, var(--shade), transparent) 100% 0 / 10px 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--faint); padding: 6px 14px 6px 0; white-space: nowrap; }
th { text-align: left; color: var(--muted); font-weight: 500; }
td.words { white-space: normal; min-width: 20ch; }
tr:last-child td { border-bottom: 0; } td.n, th.n { text-align: right; }
td.gap { color: var(--gap); font-weight: 600; } td.overlap { color: var(--overlap-ink); font-weight: 600; }
td.good { color: var(--good); font-weight: 600; }
details { margin-top: 14px; } summary { cursor: pointer; color: var(--muted); }
details .scroll { max-height: 420px; overflow: auto; margin-top: 8px; }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--page); border: 1px solid var(--faint); border-radius: 8px; padding: 10px 14px; }
pre { overflow-x: auto; margin: 8px 0; }
.key { display: flex; flex-wrap: wrap; gap: 6px 18px; color: var(--muted); font-size: 13px; margin: 6px 0 12px; }
.key span { display: inline-flex; align-items: center; gap: 7px; }
.key .chart { width: 24px; height: 12px; flex: none; margin: 0; }
button.theme { font: inherit; font-size: 13px; color: var(--muted); background: var(--card); cursor: pointer; }
button.theme { border: 1px solid var(--faint); border-radius: 99px; padding: 4px 12px; white-space: nowrap; }
button.theme:focus-visible, summary:focus-visible { outline: 2px solid var(--series-1); outline-offset: 2px; }
footer { color: var(--muted); font-size: 13px; }
@media (max-width: 640px) {
  main { padding: 24px 12px 48px; } section { padding: 16px 14px; }
  h1 { font-size: 25px; } .lead { font-size: 16px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 10px; } .tile { padding: 12px 14px; } .tile .value { font-size: 23px; }
  .cards thead { display: none; } .cards tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--faint); }
  .cards tr:last-child { border-bottom: 0; }
  .cards td, .cards td.n { display: flex; justify-content: space-between; gap: 16px; }
  .cards td { padding: 2px 0; border: 0; white-space: normal; text-align: right; }
  .cards td::before { content: attr(data-name); color: var(--muted); font-weight: 400; text-align: left; }
  .cards td.empty { display: none; }
  .cards td:first-child { font-weight: 650; } .cards td:first-child::before { content: none; }
  pre { white-space: pre-wrap; overflow-wrap: break-word; }
}
@media print {
  button.theme { display: none; } body { background: #fff; } section { break-inside: avoid; } main { padding: 0; }
  .scroll { overflow: visible; background: none; } table { font-size: 12px; }
  th, td { white-space: normal; padding: 4px 10px 4px 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
"""
)
_SWITCH = """
const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
document.querySelector("button.theme").addEventListener("click", () => {
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
"""


_FIGURE = re.compile(r"\d(?:[\d.,:/-]*\d)?(?: (?:h|s|min|days?|hours|nodes?|jobs|windows|%)(?!\w))?")
"""A number, a date or a time, with its unit."""


def sentences(text: str) -> str:
    """Escapes text for a paragraph, with no line break within a figure."""
    return _FIGURE.sub(
        lambda found: element("span", found[0], class_="whole") if re.search(r"[ -]", found[0]) else found[0],
        words(text),
    )


def page(heading: str, lead: str, *body: str) -> str:
    """Returns a whole HTML document.

    Args:
        heading: Its title.
        lead: One or two sentences below it.
        body: Markup of sections.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{words(heading)}</title><style>{COLOURS}{CHART}{_STYLE}</style></head>\n<body><main>\n"
        f'<header><h1>{words(heading)}</h1><button class="theme" type="button">light / dark</button>'
        f'<p class="lead">{sentences(lead)}</p></header>\n'
        + "\n".join(body)
        + f"\n</main><script>{_SWITCH}</script></body>\n</html>\n"
    )


def section(heading: str, explained: str, *body: str) -> str:
    """Returns a card with a heading, a sentence or none, and its content."""
    sentence = [element("p", sentences(explained))] if explained else []
    return element("section", element("h2", words(heading)), *sentence, *body)


def tiles(entries: Sequence[tuple[str, str, str]]) -> str:
    """Returns the main figures as tiles: (name, value, note)."""
    cards = [
        element(
            "div",
            element("div", words(name), class_="name"),
            element("div", words(value), class_="value"),
            element("div", words(note), class_="note"),
            class_="tile",
        )
        for name, value, note in entries
    ]
    return element("div", *cards, class_="tiles")


def chart(draw: Callable[[float], Picture]) -> str:
    """Draws a chart at three widths; the page shows the one that fits.

    Args:
        draw: Returns the picture for a width in pixels.
    """
    widths = {"narrow": NARROW, "middle": MIDDLE, "wide": WIDE}
    return element(
        "div", *[element("div", svg_of(draw(px)), class_=name) for name, px in widths.items()], class_="place"
    )


CARDS = 8
"""Maximum number of rows of a table that become cards on a narrow screen; a longer table scrolls."""

Cell = str | tuple[str, str]


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], numbers_from: int = 1, *, cards: bool = False) -> str:
    """Returns a table that scrolls within its own box; a cell may be (text, class).

    Args:
        columns: Column names.
        rows: Cells of each row.
        numbers_from: The first column that is aligned to the right.
        cards: Whether a narrow screen shows every row as a separate card; for tables of few rows.
    """

    def aligned(k: int, class_: str = "") -> str | None:
        return " ".join(filter(None, ["n" if k >= numbers_from else "", class_])) or None

    head = "".join(element("th", words(name) or "&nbsp;", class_=aligned(k)) for k, name in enumerate(columns))
    lines = []
    for row in rows:
        cells = [(cell, "" if cell else "empty") if isinstance(cell, str) else cell for cell in row]
        shown = "".join(
            element("td", words(text) or "&nbsp;", class_=aligned(k, c), data_name=columns[k] if cards else None)
            for k, (text, c) in enumerate(cells)
        )
        lines.append(element("tr", shown))
    body = element("tbody", *lines)
    whole = element("table", element("thead", element("tr", head)), body, class_="cards" if cards else None)
    return element("div", whole, class_="scroll", tabindex="0")


def key(entries: Sequence[tuple[str, str]]) -> str:
    """Returns the key of a chart's marks, each with a sample: (class of the mark, text)."""
    return element("div", *[element("span", _sample(mark), words(meaning)) for mark, meaning in entries], class_="key")


def _sample(style: str) -> str:
    """Draws a sample of a mark, with the style that the chart uses."""
    return element("svg", *map(mark_svg, sample(style)), viewBox="0 0 24 12", class_="chart", aria_hidden="true")


def folded(summary: str, *body: str) -> str:
    """Returns markup that is shown on demand."""
    return element("details", element("summary", words(summary)), *body)


def command(text: str) -> str:
    """Returns a command for copying."""
    return element("pre", words(text))
