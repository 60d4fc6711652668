"""Picture files: the supported kinds, and how they are written.

Bitmaps and PDF are drawn by matplotlib, in the light theme; they need the extra ``plot``.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_atomically, write_output
from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.report.picture import Bar, Bars, Dot, Drawn, Label, Moved, Picture, Shape, Stroke
from mirage.report.svg import svg_file
from mirage.report.theme import LIGHT, Style, style_of

BY_MATPLOTLIB = (".png", ".pdf")
"""Kinds that need the extra ``plot``."""

KINDS = (".svg", *BY_MATPLOTLIB)
"""Kinds of files that a picture can be written to."""

MATPLOTLIB_MISSING = f"needs matplotlib, which is not installed; run: {install('plot')}"

_DPI, _PX_PER_INCH = 150, 100.0
_PT_PER_PX = 72 / _PX_PER_INCH
_ANCHORS = {"": "left", "start": "left", "middle": "center", "end": "right"}


def picture_kind(path: str | os.PathLike[str], kinds: Sequence[str] = KINDS) -> str:
    """Returns the kind of picture that a file's name ends in.

    Args:
        path: The file.
        kinds: The supported kinds, such as ``.svg``.

    Raises:
        ConfigurationError: The kind is not supported, or needs matplotlib, which is missing.
    """
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        named = (" or " if len(kinds) < 3 else ", ").join(kinds)
        raise ConfigurationError(f"cannot draw into {path}: its name must end in {named}")
    if kind in BY_MATPLOTLIB and importlib.util.find_spec("matplotlib") is None:
        others = " or ".join(other for other in kinds if other not in BY_MATPLOTLIB)
        raise ConfigurationError(f"a bitmap {MATPLOTLIB_MISSING}, or draw into a {others} file")
    return kind


def write_picture(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Writes a picture into a file of the kind that its name ends in.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    kind = picture_kind(path)
    if kind == ".svg":
        write_output(path, svg_file(picture))
        return
    try:
        write_atomically(path, png_of(picture, kind[1:]))
    except OSError as error:
        raise ConfigurationError(f"cannot draw into {path}: {error.strerror}") from error


def png_of(picture: Picture, kind: str = "png") -> bytes:
    """Returns a picture as a file of matplotlib.

    Args:
        picture: The picture.
        kind: ``png`` or ``pdf``.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    size = picture.width / _PX_PER_INCH, picture.height / _PX_PER_INCH
    figure = _matplotlib("figure").Figure(size, facecolor=LIGHT["card"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(0, picture.width), ylim=(picture.height, 0))
    for order, (mark, x, y) in enumerate(_placed(picture.marks, 0.0, 0.0)):
        _draw(axes, mark, x, y, order)
    written = io.BytesIO()
    figure.savefig(written, dpi=_DPI, format=kind)
    return written.getvalue()


def _matplotlib(name: str) -> Any:
    """Imports a module of matplotlib, also where the backend in ``MPLBACKEND`` is missing."""
    backend = os.environ.pop("MPLBACKEND", None) if "matplotlib" not in sys.modules else None
    try:
        module = importlib.import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"a plot {MATPLOTLIB_MISSING}") from error
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend is not None:
        with suppress(ValueError):
            sys.modules["matplotlib"].rcParams["backend"] = backend
    return module


def _placed(marks: Sequence[Drawn], x: float, y: float) -> Iterator[tuple[Drawn, float, float]]:
    """Yields single marks, each with the place that its coordinates are relative to."""
    for mark in marks:
        if isinstance(mark, Moved):
            yield from _placed(mark.marks, x + mark.x, y + mark.y)
        else:
            yield mark, x, y


def _draw(axes: Any, mark: Drawn, x: float, y: float, order: int) -> None:
    patches = _matplotlib("patches")
    style = style_of(getattr(mark, "style", ""))
    patch = _patch_style(style, order)
    match mark:
        case Stroke(places):
            across, down = [x + place[0] for place in places], [y + place[1] for place in places]
            axes.plot(across, down, **_line_style(style, order))
        case Shape(places):
            axes.add_patch(patches.Polygon([(x + left, y + top) for left, top in places], **patch))
        case Bar(left, top, width, height, _, _, rx) if width > 0 and height > 0:
            if rx := min(rx, width / 2, height / 2):
                corners = f"round,pad=0,rounding_size={rx}"
                axes.add_patch(patches.FancyBboxPatch((x + left, y + top), width, height, boxstyle=corners, **patch))
            else:
                axes.add_patch(patches.Rectangle((x + left, y + top), width, height, **patch))
        case Bars(corners, height):
            shapes = [
                [(x + a, y + b), (x + a + w, y + b), (x + a + w, y + b + height), (x + a, y + b + height)]
                for a, b, w in corners
            ]
            axes.add_collection(_matplotlib("collections").PolyCollection(shapes, **patch))
        case Dot(left, top, radius):
            axes.add_patch(patches.Circle((x + left, y + top), radius, **patch))
        case Label(text, left, top, _, anchor, size):
            axes.text(
                x + left, y + top, str(text).replace("$", r"\$"), fontsize=size * _PT_PER_PX,
                color=LIGHT[style.fill or "muted"], weight="bold" if style.bold else "normal",
                ha=_ANCHORS[anchor], va="baseline", zorder=order, path_effects=_halo(style),
            )  # fmt: skip


def _halo(style: Style) -> list[Any]:
    """Returns the stroke below the letters of a text."""
    if not style.is_halo:
        return []
    return [_matplotlib("patheffects").withStroke(linewidth=style.width * _PT_PER_PX, foreground=LIGHT[style.stroke])]


def _line_style(style: Style, order: int) -> dict[str, Any]:
    dash = (0, [length / (style.width or 1) for length in style.dash]) if style.dash else "-"
    return {
        "color": LIGHT[style.stroke], "linewidth": style.width * _PT_PER_PX, "linestyle": dash,
        "alpha": style.opacity, "solid_joinstyle": "round", "solid_capstyle": "butt", "zorder": order,
    }  # fmt: skip


def _patch_style(style: Style, order: int) -> dict[str, Any]:
    has_edge = style.stroke not in ("", "none")
    return {
        "facecolor": LIGHT[style.fill] if style.fill not in ("", "none") else "none",
        "edgecolor": LIGHT[style.stroke] if has_edge else "none",
        "linewidth": style.width * _PT_PER_PX if has_edge else 0, "alpha": style.opacity, "zorder": order,
    }  # fmt: skip
