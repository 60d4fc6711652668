"""Theme of the reports: one set of colours by role, in a light and a dark version."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from mirage.report.picture import FONT_PX

LIGHT = {
    "page": "#f7f7f4",
    "card": "#ffffff",
    "ink": "#16181d",
    "muted": "#5f6672",
    "faint": "#dfe2e6",
    "shade": "#c3c8d0",
    "series-1": "#2463d6",
    "series-2": "#0b7a65",
    "series-3": "#8445c9",
    "series-4": "#b4570a",
    "series-5": "#c02f72",
    "series-6": "#4d6a83",
    "series-7": "#6d6600",
    "series-8": "#8a4646",
    "link": "#2f6bdd",
    "link-2": "#2154b5",
    "on-link": "#ffffff",
    "wait": "#8b93a1",
    "gap": "#d3293d",
    "overlap": "#e8a013",
    "overlap-ink": "#8f5a00",
    "good": "#16794f",
    "fill": "#c9d9f8",
}
DARK = {
    "page": "#0f1115",
    "card": "#181b21",
    "ink": "#eceef2",
    "muted": "#9ba3b0",
    "faint": "#2c313a",
    "shade": "#4a515d",
    "series-1": "#6ea1ff",
    "series-2": "#3cc9a7",
    "series-3": "#bd8cf5",
    "series-4": "#f09a4e",
    "series-5": "#f377ab",
    "series-6": "#93b0c9",
    "series-7": "#cfc54e",
    "series-8": "#d9a3a3",
    "link": "#3f6bc8",
    "link-2": "#2f58ab",
    "on-link": "#ffffff",
    "wait": "#7a8290",
    "gap": "#ff5d6c",
    "overlap": "#f5b83d",
    "overlap-ink": "#f5b83d",
    "good": "#4cc38a",
    "fill": "#26406f",
}
SERIES = 8
FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


COLOURS = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {_variables(DARK)} }} }}
:root[data-theme="dark"] {{ color-scheme: dark; {_variables(DARK)} }}
:root[data-theme="light"] {{ color-scheme: light; }}
"""
"""The reader's own choice of theme, unless the page has one in ``data-theme``."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a mark is painted; colours are roles of a theme.

    Attributes:
        fill: Colour of an area or a text; ``none`` for a line, empty for the colour of its surroundings.
        stroke: Colour of a line or an edge.
        width: Width of the line, in pixels.
        dash: Lengths of dashes and gaps, in pixels.
        opacity: 1 is opaque.
        bold: Whether text is bold.
        is_halo: Whether the stroke is below the fill, to separate a text from what it crosses.
    """

    fill: str = ""
    stroke: str = ""
    width: float = 0.0
    dash: tuple[float, ...] = ()
    opacity: float | None = None
    bold: bool = False
    is_halo: bool = False

    @property
    def is_line(self) -> bool:
        """Whether it is for lines."""
        return bool(self.stroke) and self.fill in ("", "none") and not self.is_halo

    @property
    def is_dot(self) -> bool:
        """Whether it is for hollow points."""
        return bool(self.stroke) and self.fill == "card"

    def css(self) -> str:
        """Returns the declarations of the style."""
        entries = {
            "fill": _colour(self.fill),
            "stroke": _colour(self.stroke),
            "stroke-width": f"{self.width:g}px" if self.width else "",
            "stroke-dasharray": " ".join(f"{length:g}" for length in self.dash),
            "stroke-linejoin": "round" if self.is_line or self.is_halo else "",
            "opacity": "" if self.opacity is None else f"{self.opacity:g}",
            "font-weight": "600" if self.bold else "",
            "paint-order": "stroke" if self.is_halo else "",
        }
        return " ".join(f"{name}: {value};" for name, value in entries.items() if value)


def _colour(role: str) -> str:
    return role if role in ("", "none") else f"var(--{role})"


def _line(stroke: str, width: float, *dash: float, opacity: float | None = None) -> Style:
    return Style("none", stroke, width, dash, opacity)


STYLES = {
    "strong": Style("ink", bold=True),
    "ink": Style("ink"),
    "halo": Style(stroke="card", width=4, is_halo=True),
    "card": Style("card"),
    "grid": _line("faint", 1),
    "axis": _line("muted", 1),
    "limit": _line("muted", 1, 4, 4),
    "leader": _line("muted", 1, opacity=0.6),
    "area": Style("fill"),
    "edge": _line("series-1", 1.5),
    "queue": _line("series-4", 1.5),
    "queue-area": Style("series-4", opacity=0.16),
    "lead": _line("muted", 2),
    "lead-dot": Style("card", "muted", 2),
    "lead-more": Style("muted"),
    "oracle": Style("card", "ink", 2),
    "link-a": Style("link"),
    "link-b": Style("link-2"),
    "link-name": Style("on-link", bold=True),
    "waiting": _line("wait", 2, 2, 3),
    "held": _line("wait", 2, opacity=0.45),
    "ahead": Style(opacity=0.4),
    "cut": Style("series-1"),
    "now": _line("ink", 1.5),
    "gap": Style("gap"),
    "gap-band": Style("gap", opacity=0.16),
    "gap-text": Style("gap", bold=True),
    "overlap": Style("overlap"),
    "overlap-band": Style("overlap", opacity=0.22),
    "overlap-text": Style("overlap-ink", bold=True),
    "cost-now": _line("series-3", 2),
    "cost-later": _line("series-4", 2, 6, 4),
    "band": Style("series-1", opacity=0.22),
    "median": _line("series-1", 2),
    "remaining": _line("ink", 1.5, 6, 4),
    "recorded": _line("series-1", 2),
    "simulated": _line("series-4", 2),
    "capacity": _line("series-2", 2),
    "fine": Style(width=1.4),
    "judged-band": Style("muted", opacity=0.09),
    "interval": _line("ink", 1.5),
    "apart": Style("muted", opacity=0.16),
    "median-tick": _line("card", 2.5),
    "waited": Style("card", "good", 2.5),
    "submit": _line("good", 2),
    "submit-text": Style("good", bold=True),
    **{f"s{k}": Style(f"series-{k}", f"series-{k}", 1) for k in range(1, SERIES + 1)},
    **{f"w{k}": _line(f"series-{k}", 2, opacity=0.55) for k in range(1, SERIES + 1)},
    **{f"t{k}": Style(f"series-{k}", bold=True) for k in range(1, SERIES + 1)},
    "hollow": Style("card"),
    "flat": Style(stroke="none"),
    "pale": Style(opacity=0.62),
    "paler": Style(opacity=0.32),
}
"""The styles of all charts; of several styles of one mark, a later one here overrides an earlier one."""


def style_of(names: str) -> Style:
    """Returns the style of a mark with some names of styles, separated by spaces."""
    chosen = names.split()
    found = Style()
    for name, style in STYLES.items():
        if name in chosen:
            own = {
                field.name: value for field in fields(style) if (value := getattr(style, field.name)) != field.default
            }
            found = replace(found, **own)
    return found


CHART = (
    f".chart {{ font-family: {FONT}; font-size: {FONT_PX:g}px; display: block; "
    "width: 100%; max-width: 960px; height: auto; margin: 0 auto; }\n"
    ".chart text { fill: var(--muted); }\n"
    + "".join(f".chart .{name} {{ {style.css()} }}\n" for name, style in STYLES.items())
    + ".chart .link-name { pointer-events: none; }\n"
)
"""Styles of the classes of every chart; a chart contains no colours of its own."""
