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
from mirage.extras import install
from mirage.learn.training.tensorboard_events import by_run, write_event_files
from mirage.learn.training.train_policy import RollingOriginResult
from mirage.predict.model_file import ModelCard
from mirage.report.axes import Axis, Tick, numbers
from mirage.report.chart import Chart, Curve, Scale, picture_of, styled_key
from mirage.report.picture import MARGIN_PX, NARROW, Bar, Drawn, Moved, Picture
from mirage.report.picture_file import write_picture
from mirage.report.terminal.console_table import PLAIN_WIDTH
from mirage.report.theme import SERIES
from mirage.report.training.training_text import print_choices, print_trained

_COLUMNS = 4
_MOST = 24
"""Maximum number of panels; event files have them all."""

_CLOSED = "closed_"
"""Prefix of curves of the gap closed on the tuning slice. After it follows the cost of an hour of interruption, as a
share of both hours."""

_GAP, _REWARD = "gap closed", "reward"

CurvePanel = tuple[str, str, dict[str, NDArray[Any]]]
"""Title, measured quantity, and curves by label."""


def check_report_folder(folder: str) -> None:
    """Refuses a report that could not be written, before the work.

    Raises:
        ConfigurationError: A package is missing, or the folder cannot be created.
    """
    for module, extra in (("tensorboard", "learn"), ("matplotlib", "plot")):
        if importlib.util.find_spec(module) is None:
            raise ConfigurationError(f"a report needs {module}, which is not installed; run: {install(extra)}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write a report to {folder}: {error.strerror}; name another folder") from error


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
        raise ConfigurationError(f"cannot write a report to {folder}: {error.strerror}; name another folder") from error
    write_event_files(curves, place / "curves")
    if curves:
        write_picture(learning_curves(curves), place / "learning-curves.png")
    if tried is not None:
        from mirage.report.pages.evaluation_page import draw_frontiers

        draw_frontiers(tried.evaluation, str(place / "frontier.png"), provenance)


def learning_curves(curves: Mapping[str, NDArray[Any]]) -> Picture:
    """Draws losses, rewards, and the gap closed on the tuning slice by round.

    Args:
        curves: ``training/curve`` → its values by round.
    """
    panels = [_panel(*panel) for panel in panels_of(curves)[:_MOST]]
    rows = [panels[k : k + _COLUMNS] for k in range(0, len(panels), _COLUMNS)]
    width = MARGIN_PX + max((len(row) for row in rows), default=1) * (NARROW + MARGIN_PX)
    parts: list[Drawn] = []
    y = MARGIN_PX
    for row in rows:
        parts += [Moved(panel.marks, MARGIN_PX + k * (NARROW + MARGIN_PX), y) for k, panel in enumerate(row)]
        y += max(panel.height for panel in row) + MARGIN_PX
    return Picture(
        width, y, [Bar(0, 0, width, y, "card"), *parts], f"Learning curves of {len(panels)} figures by round."
    )


def _panel(run: str, measured: str, curves: Mapping[str, NDArray[Any]]) -> Picture:
    values = [float(value) for found in curves.values() for value in found]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1
    chart = Chart(
        title=measured,
        x=Scale(1, max(2, *(len(found) for found in curves.values())), _rounds, "round"),
        y=Scale(low - room, high + room, numbers(6)),
        marks=[Curve(list(enumerate(found, 1)), _style(k)) for k, found in enumerate(curves.values())],
        key=styled_key(*((_style(k), name) for k, name in enumerate(curves))),
        note=run,
        height=150,
    )
    return picture_of(f"{run}: {measured}", chart, width=NARROW)


def _rounds(axis: Axis) -> list[Tick]:
    return [tick for tick in numbers()(axis) if tick[0] % 1 == 0]


def _style(k: int) -> str:
    return f"w{k % SERIES + 1}"


def panels_of(curves: Mapping[str, NDArray[Any]]) -> list[CurvePanel]:
    """Returns the panels of some curves, training by training."""
    found = []
    for run, of_run in by_run(curves).items():
        kinds: dict[str, dict[str, NDArray[Any]]] = {}
        has_better_tune = any(_kind(name)[0] in (_GAP, _REWARD) for name in of_run)
        for name, values in sorted(of_run.items()):
            kind, label = _kind(name)
            if name != "tune" or not has_better_tune:
                kinds.setdefault(kind, {})[label] = values
        found += [(run, measured, of_kind) for measured, of_kind in kinds.items()]
    return found


def _kind(name: str) -> tuple[str, str]:
    """Returns the quantity of a curve, and its label."""
    if name.startswith(_CLOSED):
        return _GAP, _ratio(float(name.removeprefix(_CLOSED)))
    if name.startswith(_REWARD):
        return _REWARD, name
    return (name, name) if name == "entropy" else ("loss", name)


def _ratio(share: float) -> str:
    """Formats costs of an hour of interruption and of overlap: ``3 : 1`` for three quarters."""
    return f"{share / (1 - share):g} : 1" if share >= 0.5 else f"1 : {(1 - share) / share:g}"
