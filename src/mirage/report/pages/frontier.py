"""The frontier of an evaluation as a file: SVG and HTML by ourselves, PNG by matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError
from mirage.provision.evaluation.evaluate import Evaluation
from mirage.provision.evaluation.frontier import frontiers
from mirage.provision.evaluation.score import CLASSES
from mirage.report.charts.frontier import frontier_chart, stacked
from mirage.report.page import Cell, command, page, section, table
from mirage.report.theme import standalone
from mirage.whole_file import write_whole

_BY_MATPLOTLIB = (".png", ".pdf")
KINDS = (".svg", ".html", *_BY_MATPLOTLIB)


def kind_of(path: str) -> str:
    """What a file's name says it is to be; to be asked before the work that is to be drawn.

    Raises:
        ConfigurationError: An unknown kind, or matplotlib is missing for it.
    """
    kind = Path(path).suffix.lower()
    if kind not in KINDS:
        raise ConfigurationError(f"cannot draw into {path}: its name must end in {', '.join(KINDS)}")
    if kind in _BY_MATPLOTLIB and importlib.util.find_spec("matplotlib") is None:
        raise ConfigurationError(
            'a bitmap needs matplotlib, which is not installed; run: pip install "mirage-hpc[plot]", '
            "or draw into a .svg or .html file"
        )
    return kind


def draw_frontiers(evaluation: Evaluation, path: str, provenance: dict[str, Any]) -> None:
    """Draw the frontier of every size of link into a file; what its name ends in says its kind.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    kind = kind_of(path)
    if kind in _BY_MATPLOTLIB:
        from mirage.report.charts.frontier_png import draw_with_matplotlib

        draw_with_matplotlib(frontiers(evaluation), path)
        return
    charts = [frontier_chart(frontier) for frontier in frontiers(evaluation)]
    text = standalone(stacked(charts)) if kind == ".svg" else evaluation_page(evaluation, provenance)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error


def evaluation_page(evaluation: Evaluation, provenance: dict[str, Any]) -> str:
    """An evaluation as a page: the frontier of every load class, the rows, and how they came about."""
    sections = []
    for load in CLASSES:
        for frontier in frontiers(evaluation, load):
            rows = [r for r in evaluation.rows if (r.link_nodes, r.load) == (frontier.link_nodes, load)]
            cells: list[list[Cell]] = [
                [
                    row.policy,
                    "free" if row.cost_ratio is None else f"{row.cost_ratio:g}:1",
                    f"{row.interruption_h:.2f}",
                    f"{row.overlap_h:.2f}",
                    f"{row.zero_share:.0%}",
                    f"{row.cost:.2f}",
                    "–" if row.gap_closed is None else f"{row.gap_closed:.0%}",
                ]
                for row in rows
            ]
            columns = ("policy", "cost", "interruption h", "overlap h", "x ≤ 0", "mean cost", "gap closed")
            of_load = "all loads" if load == "all" else f"{load} load"
            heading = f"{of_load.capitalize()}, links of {frontier.link_nodes} node{'s'[: frontier.link_nodes > 1]}"
            told = f"{frontier.windows} windows; bars are 95 % intervals where there are enough weeks."
            sections.append(section(heading, told, frontier_chart(frontier), table(columns, cells)))
    lead = "{windows} windows of {trace} from {start}: protocol {protocol}, {discipline} on {nodes} nodes.".format(
        **{**provenance, "trace": Path(provenance["trace"]).name}
    )
    made = section("How this was made", f"{evaluation.intervals}.", command(str(provenance["command"])))
    return page("Interruption against overlap", lead, *sections, made)
