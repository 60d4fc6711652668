"""SVG and markup as text: elements, numbers, escaping, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mirage.report.picture import FONT_PX, Bar, Bars, Dot, Drawn, Label, Picture, Place, Shape, Stroke
from mirage.report.theme import CHART, COLOURS

Attribute = str | float | int | None


def element(tag: str, *children: str, **attributes: Attribute) -> str:
    """Returns an element; ``_`` in attributes becomes a hyphen, a trailing one is dropped.

    Args:
        children: Markup, already escaped (``words`` escapes text).
        attributes: Numbers are written with at most two decimals; None is left out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(number(value) if not isinstance(value, str) else value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = "".join(children)
    return f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>"


def words(text: object) -> str:
    """Escapes text for use between tags."""
    return escape(str(text), quote=False)


def number(value: float) -> str:
    """Formats a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def svg_of(picture: Picture) -> str:
    """Returns a picture that scales with its container; its colours are those of the page."""
    return element(
        "svg",
        element("title", words(picture.description)),
        *map(mark_svg, picture.marks),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(picture.width)} {number(picture.height)}",
        role="img",
        class_="chart",
    )


def svg_file(picture: Picture) -> str:
    """Returns a picture with its own colours, as a separate file."""
    style = f"<style>{COLOURS}{CHART}.chart {{ background: var(--card); }}</style>"
    head, _, rest = svg_of(picture).partition(">")
    return f"{head}>{style}{rest}\n"


def mark_svg(mark: Drawn) -> str:
    """Returns the markup of a mark; a browser shows its hint when the pointer is over it."""
    match mark:
        case Stroke(((x1, y1), (x2, y2)), style):
            return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)
        case Stroke(places, style):
            return element("polyline", points=_points(places), class_=style)
        case Shape(places, style, hint):
            return element("polygon", *_title(hint), points=_points(places), class_=style)
        case Bar(x, y, width, height, style, hint, rx):
            wide, high = max(width, 0), max(height, 0)
            return element("rect", *_title(hint), x=x, y=y, width=wide, height=high, rx=rx, class_=style)
        case Bars(corners, height, style):
            tall = number(height)
            path = "".join(f"M{x:.1f} {y:.1f}h{width:.1f}v{tall}H{x:.1f}z" for x, y, width in corners)
            return element("path", d=path, class_=style)
        case Dot(x, y, radius, style, hint):
            return element("circle", *_title(hint), cx=x, cy=y, r=radius, class_=style)
        case Label(text, x, y, style, anchor, size, hint):
            optional: dict[str, Attribute] = {
                "text_anchor": anchor or None,
                "class_": style or None,
                "font_size": None if size == FONT_PX else size,
                "aria_label": hint or None,
            }
            return element("text", words(text), x=x, y=y, **optional)
    return element("g", *map(mark_svg, mark.marks), transform=f"translate({mark.x:g} {mark.y:g})")


def _title(hint: str) -> tuple[str, ...]:
    return (element("title", words(hint)),) if hint else ()


def _points(places: Sequence[Place]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in places)
