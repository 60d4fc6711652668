"""Learning curves as a bitmap, drawn by matplotlib: one panel for each training.

Needs the extra ``plot``.
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mirage.errors import ConfigurationError
from mirage.learn.training.curves import by_run
from mirage.report.theme import LIGHT
from mirage.whole_file import write_whole

_COLUMNS = 4
_MOST = 24
"""Panels that are drawn at most; event files have them all."""


def draw_learning_curves(curves: Mapping[str, NDArray[Any]], path: str) -> None:
    """Draw loss by round, on what is learnt from and on what is tuned on.

    Args:
        curves: ``training/curve`` → its values by round.
        path: The file, a PNG.

    Raises:
        ConfigurationError: matplotlib is not installed, or cannot write there.
    """
    try:
        figure_module: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ConfigurationError(
            'a bitmap needs matplotlib, which is not installed; run: pip install "mirage-hpc[plot]"'
        ) from error
    runs = dict(list(by_run(curves).items())[:_MOST])
    columns = max(min(len(runs), _COLUMNS), 1)
    rows = max(math.ceil(len(runs) / columns), 1)
    figure = figure_module.Figure(figsize=(3.6 * columns, 2.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(runs) :]:
        panel.set_axis_off()
    for panel, (run, of_run) in zip(panels, runs.items()):
        panel.set_title(run, fontsize=7)
        panel.set_xlabel("round", fontsize=7)
        panel.set_ylabel("loss", fontsize=7)
        panel.tick_params(labelsize=6)
        panel.grid(color=LIGHT["faint"])
        for k, (name, values) in enumerate(of_run.items()):
            panel.plot(values, color=LIGHT[f"series-{k + 1}"], label=name)
        panel.legend(fontsize=6)
    try:
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=120, format="png")
        write_whole(path, drawn.getvalue())
    except OSError as error:
        raise ConfigurationError(f"cannot draw into {path}: {error.strerror}") from error
