"""SVG as text: elements, numbers and escaping."""

from __future__ import annotations

from html import escape

NARROW, MIDDLE, WIDE = 320.0, 640.0, 940.0
"""Widths at which a chart is drawn: for a phone, a tablet, a screen. Text has the same size in all of them."""

FONT_PX = 12.0
_ADVANCE = 0.6
"""Mean advance of a letter as a share of the font size, that of a broad sans-serif (DejaVu Sans)."""

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


def label(text: object, x: float, y: float, **attributes: Attribute) -> str:
    """Returns a line of text at a position."""
    return element("text", words(text), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Returns a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, hint: str = "", rx: float = 0) -> str:
    """Returns a rectangle; ``hint`` shows when the pointer is over it."""
    return element("rect", *title(hint), x=x, y=y, width=max(width, 0), height=max(height, 0), rx=rx, class_=class_)


def polyline(points: list[tuple[float, float]], class_: str) -> str:
    """Returns a line through points."""
    return element("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), class_=class_)


def polygon(points: list[tuple[float, float]], class_: str) -> str:
    """Returns a filled shape."""
    return element("polygon", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), class_=class_)


def title(hint: str) -> tuple[str, ...]:
    """Returns the child that makes a browser show a hint."""
    return (element("title", words(hint)),) if hint else ()


def text_px(text: str, size: float = FONT_PX) -> float:
    """Estimates the width of a line of text."""
    return _ADVANCE * size * len(text)


def drawing(width: float, height: float, *children: str, describes: str) -> str:
    """Returns a picture that scales with its container.

    Args:
        width: In its own coordinates.
        height: In its own coordinates.
        children: Markup.
        describes: Description for screen readers.
    """
    return element(
        "svg",
        element("title", words(describes)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        class_="chart",
    )
