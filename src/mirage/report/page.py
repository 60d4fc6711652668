"""A page that stands alone: no network, no fonts to fetch, light and dark, fit to be sent to a colleague."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.report.svg import element, words
from mirage.report.theme import CHART, COLOURS, FONT

_LOOK = (
    f"body {{ margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 {FONT}; }}"
    """
main { max-width: 1000px; margin: 0 auto; padding: 40px 20px 64px; }
header { display: flex; gap: 16px; align-items: flex-start; justify-content: space-between; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.02em; margin: 0 0 8px; }
h2 { font-size: 18px; margin: 0 0 4px; letter-spacing: -0.01em; }
p { margin: 0 0 12px; max-width: 72ch; } .lead { color: var(--muted); font-size: 17px; }
section, .tile { background: var(--card); border: 1px solid var(--faint); border-radius: 12px; }
section { padding: 20px 22px; margin: 20px 0; }
section > p { color: var(--muted); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px; margin: 22px 0; }
.tile { padding: 14px 18px; }
.tile .name { color: var(--muted); font-size: 13px; }
.tile .value { font-size: 28px; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25; }
.tile .note { color: var(--muted); font-size: 13px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--faint); padding: 6px 14px 6px 0; white-space: nowrap; }
th { text-align: left; color: var(--muted); font-weight: 500; }
tr:last-child td { border-bottom: 0; } td.n, th.n { text-align: right; }
td.gap { color: var(--gap); font-weight: 600; } td.overlap { color: var(--overlap); font-weight: 600; }
td.good { color: var(--good); font-weight: 600; }
details { margin-top: 14px; } summary { cursor: pointer; color: var(--muted); }
details .scroll { max-height: 420px; overflow: auto; margin-top: 8px; }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--page); border: 1px solid var(--faint); border-radius: 8px; padding: 10px 14px; }
pre { overflow-x: auto; margin: 8px 0; }
.key { display: flex; flex-wrap: wrap; gap: 6px 18px; color: var(--muted); font-size: 13px; margin: 6px 0 12px; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; }
button.theme { font: inherit; font-size: 13px; color: var(--muted); background: var(--card); cursor: pointer; }
button.theme { border: 1px solid var(--faint); border-radius: 99px; padding: 4px 12px; white-space: nowrap; }
button.theme:focus-visible, summary:focus-visible { outline: 2px solid var(--series-1); outline-offset: 2px; }
footer { color: var(--muted); font-size: 13px; }
@media print { button.theme { display: none; } body { background: #fff; } section { break-inside: avoid; } }
"""
)
_SWITCH = """
const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
document.querySelector("button.theme").addEventListener("click", () => {
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
"""


def page(heading: str, lead: str, *body: str) -> str:
    """A whole HTML document.

    Args:
        heading: Its title.
        lead: One or two sentences below it.
        body: Markup of sections.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{words(heading)}</title><style>{COLOURS}{CHART}{_LOOK}</style></head>\n<body><main>\n"
        f"<header><div><h1>{words(heading)}</h1>"
        f'<p class="lead">{words(lead)}</p></div><button class="theme" type="button">light / dark</button></header>\n'
        + "\n".join(body)
        + f"\n</main><script>{_SWITCH}</script></body>\n</html>\n"
    )


def section(heading: str, explained: str, *body: str) -> str:
    """A card with a heading, a sentence, and what it is about."""
    return element("section", element("h2", words(heading)), element("p", words(explained)), *body)


def tiles(entries: Sequence[tuple[str, str, str]]) -> str:
    """Figures to be seen first: (name, value, note)."""
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


Cell = str | tuple[str, str]


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], numbers_from: int = 1) -> str:
    """A table; a cell may be (text, class).

    Args:
        columns: Their names.
        rows: Their cells.
        numbers_from: The first column that is aligned to the right.
    """

    def aligned(k: int, class_: str = "") -> str | None:
        return " ".join(filter(None, ["n" if k >= numbers_from else "", class_])) or None

    head = "".join(element("th", words(name), class_=aligned(k)) for k, name in enumerate(columns))
    lines = []
    for row in rows:
        cells = [(cell, "") if isinstance(cell, str) else cell for cell in row]
        shown = "".join(
            element("td", words(text) or "&nbsp;", class_=aligned(k, c)) for k, (text, c) in enumerate(cells)
        )
        lines.append(element("tr", shown))
    body = element("tbody", *lines)
    return element("div", element("table", element("thead", element("tr", head)), body), class_="scroll")


def key(entries: Sequence[tuple[str, str]]) -> str:
    """What colours mean: (colour's role, words)."""
    return element(
        "div",
        *[element("span", f'<i style="background:var(--{role})"></i>', words(meaning)) for role, meaning in entries],
        class_="key",
    )


def folded(summary: str, *body: str) -> str:
    """What is shown on demand."""
    return element("details", element("summary", words(summary)), *body)


def command(text: str) -> str:
    """A command to copy."""
    return element("pre", words(text))
