"""Theme of the reports: one set of colours by role, in a light and a dark version."""

from __future__ import annotations

from mirage.report.svg import FONT_PX

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

CHART = (
    f".chart {{ font-family: {FONT}; font-size: {FONT_PX:g}px; display: block; "
    "width: 100%; max-width: 960px; height: auto; margin: 0 auto; }"
    """
.chart text { fill: var(--muted); }
.chart .strong { fill: var(--ink); font-weight: 600; }
.chart .ink { fill: var(--ink); }
.chart .halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.chart .grid { stroke: var(--faint); stroke-width: 1; }
.chart .axis { stroke: var(--muted); stroke-width: 1; }
.chart .limit { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 4 4; }
.chart .area { fill: var(--fill); }
.chart .edge { fill: none; stroke: var(--series-1); stroke-width: 1.5; stroke-linejoin: round; }
.chart .queue { fill: none; stroke: var(--series-4); stroke-width: 1.5; stroke-linejoin: round; }
.chart .queue-area { fill: var(--series-4); opacity: 0.16; }
.chart .lead { fill: none; stroke: var(--muted); stroke-width: 2; stroke-linejoin: round; }
.chart .lead-dot { fill: var(--card); stroke: var(--muted); stroke-width: 2; }
.chart .lead-more { fill: var(--muted); }
.chart .leader { stroke: var(--muted); stroke-width: 1; opacity: 0.6; }
.chart .card { fill: var(--card); }
.chart .oracle { fill: var(--card); stroke: var(--ink); stroke-width: 2; }
.chart .link-a { fill: var(--link); } .chart .link-b { fill: var(--link-2); }
.chart .link-name { fill: var(--on-link); font-weight: 600; pointer-events: none; }
.chart .waiting { stroke: var(--wait); stroke-width: 2; stroke-dasharray: 2 3; }
.chart .held { stroke: var(--wait); stroke-width: 2; opacity: 0.45; }
.chart .ahead { opacity: 0.4; }
.chart .cut { fill: var(--series-1); }
.chart .now { stroke: var(--ink); stroke-width: 1.5; }
.chart .gap-band { fill: var(--gap); opacity: 0.16; } .chart .overlap-band { fill: var(--overlap); opacity: 0.22; }
.chart .cost-now { fill: none; stroke: var(--series-3); stroke-width: 2; }
.chart .cost-later { fill: none; stroke: var(--series-4); stroke-width: 2; stroke-dasharray: 6 4; }
.chart .gap { fill: var(--gap); } .chart .overlap { fill: var(--overlap); }
.chart .gap-text { fill: var(--gap); font-weight: 600; }
.chart .overlap-text { fill: var(--overlap-ink); font-weight: 600; }
.chart .band { fill: var(--series-1); opacity: 0.22; }
.chart .median { fill: none; stroke: var(--series-1); stroke-width: 2; }
.chart .remaining { fill: none; stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 6 4; }
.chart .recorded { fill: none; stroke: var(--series-1); stroke-width: 2; stroke-linejoin: round; }
.chart .simulated { fill: none; stroke: var(--series-4); stroke-width: 2; stroke-linejoin: round; }
.chart .capacity { fill: none; stroke: var(--series-2); stroke-width: 2; stroke-linejoin: round; }
.chart .fine polyline { stroke-width: 1.4; }
.chart .judged-band { fill: var(--muted); opacity: 0.09; }
.chart .interval { stroke: var(--ink); stroke-width: 1.5; }
.chart .apart { fill: var(--muted); opacity: 0.16; }
.chart .median-tick { stroke: var(--card); stroke-width: 2.5; }
.chart .waited { fill: var(--card); stroke: var(--good); stroke-width: 2.5; }
.chart .submit { stroke: var(--good); stroke-width: 2; } .chart .submit-text { fill: var(--good); font-weight: 600; }
"""
    + "".join(
        f".chart .s{k} {{ fill: var(--series-{k}); stroke: var(--series-{k}); }}\n"
        f".chart .w{k} {{ fill: none; stroke: var(--series-{k}); stroke-width: 2; opacity: 0.55; }}\n"
        f".chart .t{k} {{ fill: var(--series-{k}); font-weight: 600; }}\n"
        for k in range(1, SERIES + 1)
    )
)
"""Styles of the classes of every chart; a chart contains no colours of its own."""


LINES = {
    "waiting",
    "held",
    "now",
    "limit",
    "edge",
    "queue",
    "lead",
    "median",
    "remaining",
    "submit",
    "cost-now",
    "cost-later",
    "recorded",
    "simulated",
    "capacity",
    "interval",
} | {f"w{k}" for k in range(1, SERIES + 1)}
"""Classes of marks that are strokes."""

DOTS = {"waited"}
"""Classes of marks that are small circles."""


def standalone(svg: str) -> str:
    """Returns a chart with its own style, as a separate file."""
    style = f"<style>{COLOURS}{CHART}.chart {{ background: var(--card); }}</style>"
    head, _, rest = svg.partition(">")
    return f"{head}>{style}{rest}\n"
