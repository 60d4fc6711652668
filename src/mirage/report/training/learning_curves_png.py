"""Learning curves as a bitmap, drawn by matplotlib: a panel per training and figure.

Needs the extra ``plot``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mirage.learn.training.tensorboard_events import by_run
from mirage.report.charts.picture_file import new_figure, write_figure
from mirage.report.theme import LIGHT

_COLUMNS = 4
_MOST = 24
"""Maximum number of panels; event files have them all."""

_CLOSED = "closed_"
"""Prefix of curves of the gap closed on the tuning slice. After it follows the cost of an hour of interruption, as a
share of both hours."""

_GAP, _REWARD = "gap closed", "reward"

Panel = tuple[str, str, dict[str, NDArray[Any]]]
"""Title, measured quantity, and curves by label."""


def draw_learning_curves(curves: Mapping[str, NDArray[Any]], path: str) -> None:
    """Draws losses, rewards, and the gap closed on the tuning slice by round.

    Args:
        curves: ``training/curve`` → its values by round.
        path: The file, a PNG.

    Raises:
        ConfigurationError: matplotlib is not installed, or cannot write there.
    """
    drawn_panels = panels_of(curves)[:_MOST]
    columns = max(min(len(drawn_panels), _COLUMNS), 1)
    rows = max(math.ceil(len(drawn_panels) / columns), 1)
    figure = new_figure(3.6 * columns, 2.6 * rows, layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for place in places[len(drawn_panels) :]:
        place.set_axis_off()
    for place, (title, measured, of_panel) in zip(places, drawn_panels):
        place.set_title(title, fontsize=7)
        place.set_xlabel("round", fontsize=7)
        place.set_ylabel(measured, fontsize=7)
        place.tick_params(labelsize=6)
        place.grid(color=LIGHT["faint"])
        for k, (name, values) in enumerate(of_panel.items()):
            place.plot(range(1, len(values) + 1), values, color=LIGHT[f"series-{k + 1}"], label=name)
        place.legend(fontsize=6)
    write_figure(figure, path)


def panels_of(curves: Mapping[str, NDArray[Any]]) -> list[Panel]:
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
