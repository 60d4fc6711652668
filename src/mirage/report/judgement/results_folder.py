"""Folder of a comparison: figures as JSON, the page, and a frontier per link size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.errors import ConfigurationError
from mirage.learn.training.comparison.comparison_plan import OURS, PUBLISHED, kind_of
from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.report.judgement.results_page import results_page
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
