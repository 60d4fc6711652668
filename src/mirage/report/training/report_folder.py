"""Folder of a training's report: text, JSON, learning curves, and a frontier."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.console import Console

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError
from mirage.learn.training.tensorboard_events import write_event_files
from mirage.learn.training.train_policy import RollingOriginResult
from mirage.predict.model_file import ModelCard
from mirage.report.picture_file import write_picture
from mirage.report.terminal.console_table import PLAIN_WIDTH
from mirage.report.training.learning_curves import learning_curves
from mirage.report.training.training_text import print_choices, print_trained


def check_report_folder(folder: str) -> None:
    """Refuses a report that could not be written, before the work.

    Raises:
        ConfigurationError: A package is missing, or the folder cannot be created.
    """
    for module, extra in (("tensorboard", "learn"), ("matplotlib", "plot")):
        if importlib.util.find_spec(module) is None:
            raise ConfigurationError(
                f'a report needs {module}, which is not installed; run: pip install "mirage-hpc[{extra}]"'
            )
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write a report to {folder}: {error.strerror}") from error


def report_of(card: ModelCard, tried: RollingOriginResult | None, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain values: the card, and for a choice all candidates."""
    found: dict[str, Any] = {"card": asdict(card), **provenance}
    if tried is not None:
        found |= {
            "choices": [choice.to_json() for choice in tried.choices],
            "rows": [row.to_json() for row in tried.evaluation.rows],
            "months": [row.to_json() for row in tried.evaluation.months],
            "differences": [difference.to_json() for difference in tried.evaluation.differences],
            "intervals": tried.evaluation.intervals,
        }
    return found


def write_report(
    folder: str,
    card: ModelCard,
    tried: RollingOriginResult | None,
    curves: Mapping[str, NDArray[Any]],
    provenance: dict[str, Any],
) -> None:
    """Writes ``report.json``, ``report.txt``, ``learning-curves.png`` and ``curves/``.

    For a choice, it also writes ``frontier.png``.

    Raises:
        ConfigurationError: The folder cannot be written, or a package is missing.
    """
    place = Path(folder)
    written = io.StringIO()
    text = Console(file=written, width=PLAIN_WIDTH, highlight=False)
    if tried is not None:
        print_choices(tried.choices, tried.evaluation, provenance, text)
        text.print()
    print_trained(card, text)
    try:
        write_atomically(
            place / "report.json", (json.dumps(report_of(card, tried, provenance), indent=2) + "\n").encode()
        )
        write_atomically(place / "report.txt", written.getvalue().encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write a report to {folder}: {error.strerror}") from error
    write_event_files(curves, place / "curves")
    if curves:
        write_picture(learning_curves(curves), place / "learning-curves.png")
    if tried is not None:
        from mirage.report.pages.evaluation_page import draw_frontiers

        draw_frontiers(tried.evaluation, str(place / "frontier.png"), provenance)
