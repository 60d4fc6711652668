"""Results of a comparison as a folder: figures as JSON, a page in Markdown, frontiers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.errors import ConfigurationError
from mirage.learn.training.comparison.comparison_plan import OURS, PUBLISHED, kind_of
from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.provision.evaluation.policy_score import CLASSES
from mirage.provision.link_size import LIGHT
from mirage.report.figures import LOAD_WORDS, links_words
from mirage.report.judgement.findings import claims_table, claims_words, findings
from mirage.report.judgement.result_cells import at
from mirage.report.judgement.result_tables import (
    ResultsView,
    main_cells,
    month_cells,
    seed_cells,
    table,
    under_load_cells,
)
from mirage.report.pages.evaluation_page import draw_frontiers
from mirage.report.pages.evaluation_page import kind_of as check_kind

PICTURES = (".svg", ".png")


def check_results_folder(folder: Path) -> None:
    """Refuses a folder that cannot be written, before hours of work.

    Raises:
        ConfigurationError: It cannot be created, or matplotlib is missing for the pictures.
    """
    for kind in PICTURES:
        check_kind(f"frontier{kind}")
    if folder.is_file():
        raise ConfigurationError(f"cannot write a comparison to {folder}: it is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write a comparison to {folder}: {error.strerror}") from error


def write_results(folder: Path, comparison: MethodComparison, provenance: dict[str, Any]) -> None:
    """Writes ``results.json``, ``results.md`` and the pictures.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    evaluation = comparison.evaluation
    drawn = tuple(name for name in evaluation.policies if kind_of(name) in (PUBLISHED, OURS) or name == "oracle")
    pictures = {}
    for nodes, trials in evaluation.trials.items():
        name = f"frontier-{nodes}-node{'s' if nodes > 1 else ''}"
        of_size = replace(evaluation, trials={nodes: trials}, policies=drawn)
        for kind in PICTURES:
            draw_frontiers(of_size, str(folder / f"{name}{kind}"), provenance)
        pictures[nodes] = f"{name}.svg"
    report = comparison.to_json() | provenance
    texts = {
        "results.json": json.dumps(report, indent=2) + "\n",
        "results.md": results_page(comparison, provenance, pictures),
    }
    for name, text in texts.items():
        write_output(folder / name, text)


_HOW_TO_READ = """\
Hours of interruption / overlap per hand-over. *Without interruption* is the share of hand-overs that had none; *gap
closed* the share of the cost between `reactive` and the hindsight `oracle` that is saved (– where it is unknown).
Brackets are 95 % intervals over time; differences are paired by window, and bold where they are beyond doubt: the
interval excludes zero, also with a rare loss that the windows may have missed, and after a correction for the policies
of the table (Benjamini and Hochberg). Policies of one kind with equal results in every window share a row. *Published*
are the methods of Mirage (SC'23); *bounds* use knowledge that no real policy has."""

_CLAIMS = """\
Their abstract states that provisioning cuts interruption by 17 to 100 % and leaves 23 to 76 % of jobs without any, over
load levels. Each cell: the reduction of interruption against the reactive chain (light load in hours), hand-overs
without any, and the overlap, without which neither figure is meaningful: a lead of a whole day has no interruption
either. The head of a column gives the interruption of the reactive chain."""


def results_page(comparison: MethodComparison, provenance: dict[str, Any], pictures: dict[int, str]) -> str:
    """Returns the whole page.

    Args:
        provenance: As provided by ``mirage compare``.
        pictures: Nodes of a link → file of its frontier, in the folder of the page.
    """
    sizes = list(comparison.evaluation.trials)
    views = [ResultsView(comparison, nodes, ratio) for nodes in sizes for ratio in _ratios(comparison)]
    parts = [
        "# Results",
        _provenance_words(comparison, provenance),
        f"```sh\n{provenance['command']}\n```",
        _HOW_TO_READ,
    ]
    parts += [f"Intervals: {comparison.evaluation.intervals}."]
    parts += ["## What is proven", *filter(None, map(findings, views))]
    parts += ["## All methods"]
    for nodes in sizes:
        parts += _size_parts(comparison, nodes, pictures)
    if comparison.under_load:
        parts += ["## Where there is load", _under_load_words(views[0])]
        for view in views:
            if (cells := under_load_cells(view))[1]:
                parts += [f"**{_title(view)}**{_loaded_windows(view)}", table(cells)]
    parts += ["## The published claims", _CLAIMS]
    for nodes in sizes:
        parts += [*filter(None, [claims_words(comparison, nodes)]), claims_table(comparison, nodes)]
    parts += ["## By load"]
    for view in views:
        parts += _load_parts(view)
    against = f" from `{views[0].against}`" if views[0].against else ""
    parts += ["## By month", f"Each with its difference in cost{against}."]
    for view in views:
        parts += [f"**{_title(view)}**", table(month_cells(view))]
    parts += ["## By seed", "Mean cost of each seed, for random methods."]
    for view in views:
        parts += [f"**{_title(view)}**", table(seed_cells(view))]
    return "\n\n".join(parts) + "\n"


def _size_parts(comparison: MethodComparison, nodes: int, pictures: dict[int, str]) -> list[str]:
    parts = [f"### {links_words(nodes).capitalize()}"]
    for ratio in _ratios(comparison):
        view = ResultsView(comparison, nodes, ratio)
        parts += [f"**{_title(view)}**: {_windows_words(view)}", table(main_cells(view))]
    if nodes in pictures:
        parts.append(f"![Interruption against overlap, {links_words(nodes)}]({pictures[nodes]})")
    return parts


def _load_parts(view: ResultsView) -> list[str]:
    parts = []
    for load in CLASSES[1:]:
        rows = view.rows(load)
        if rows:
            windows = next(iter(rows.values())).windows
            loads = f"{load} load ({LOAD_WORDS[load]}), {windows} window{'s' if windows > 1 else ''}"
            in_hours = "; in hours, as there is little to close" if load == LIGHT else ""
            parts += [f"**{_title(view)}, {loads}**{in_hours}", table(main_cells(view, load))]
    return parts


def _under_load_words(view: ResultsView) -> str:
    """Explains the tables of medium and heavy load."""
    lead = "Medium and heavy load together: in light load there is little to gain, and shares are not informative."
    if view.against is None:
        return lead
    return (
        f"{lead} The last columns give how many points of the gap of these windows a policy closes beyond "
        f"`{view.against}`: the difference in cost, paired by window, over the mean gap; bold where it is beyond doubt."
    )


def _loaded_windows(view: ResultsView) -> str:
    """Formats the number of windows: ``: 20 windows``."""
    sizes = {one.row.link_nodes: one.row.windows for one in view.comparison.under_load}
    return f": {sizes[view.nodes]} window{'s' if sizes[view.nodes] > 1 else ''}"


def _windows_words(view: ResultsView) -> str:
    """Formats the numbers of windows: ``58 windows: 30 light, 20 medium, 8 heavy``."""
    counts = {load: next(iter(rows.values())).windows for load in CLASSES if (rows := view.rows(load))}
    of_load = ", ".join(f"{count} {load}" for load, count in counts.items() if load != "all")
    return f"{counts['all']} windows: {of_load}"


def _provenance_words(comparison: MethodComparison, provenance: dict[str, Any]) -> str:
    plan = comparison.plan
    where = "`{trace}` under `{discipline}` on {nodes} nodes, settings {settings}, protocol {protocol}"
    seeds = f"{len(plan.seeds)} seed{'s' if len(plan.seeds) > 1 else ''} ({', '.join(map(str, plan.seeds))})"
    every = f"a window every {provenance['every_s'] / 3600:g} h, a decision every {provenance['step_s'] / 60:g} min"
    return (
        f"{where.format(**provenance)}; {every}. Tested on {_and(plan.months)}, each with models that were trained and "
        f"tuned on windows that were completely known before the month; {seeds}. Every method runs from its model "
        "file, as in an agent. Random methods run with every seed; a window counts once, for any number of seeds. "
        f"Mirage {provenance['version']}."
    )


def _ratios(comparison: MethodComparison) -> list[float | None]:
    return list(dict.fromkeys(row.cost_ratio for row in comparison.evaluation.rows))


def _title(view: ResultsView) -> str:
    return f"{links_words(view.nodes).capitalize()} {at(view.ratio)}"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
