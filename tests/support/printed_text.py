"""Texts of reports: a terminal's lines with the names of styles, a page's words."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

_SILENT = ("svg", "script", "style", "button")
_STYLES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow"}


def printed(show: Callable[[Console], None], width: int, *, encoding: str = "utf-8") -> list[str]:
    """The lines printed to a terminal; a change of style is ``<bold green>`` or ``</>``."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as out:
        show(Console(file=out, width=width, highlight=False, force_terminal=True, color_system="standard"))
        out.flush()
        text = raw.getvalue().decode(encoding)
    return [_joined(re.sub("\x1b\\[([0-9;]*)m", _style, line)).rstrip() for line in text.splitlines()]


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, opened: Callable[[], Any], *arguments: Any) -> str:
    """What a context's report writes to standard error where that is a terminal."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with contextlib.redirect_stderr(Terminal()) as written:
        with opened() as report:
            report(*arguments)
        return written.getvalue()


def _joined(line: str) -> str:
    """Stretches of one style that follow each other as one."""
    pieces = re.findall(r"<([a-z ]+)>(.*?)</>|([^<]+)", line)
    joined: list[tuple[str, str]] = []
    for style, styled, plain in pieces:
        if joined and joined[-1][0] == style:
            joined[-1] = style, joined[-1][1] + styled + plain
        else:
            joined.append((style, styled + plain))
    return "".join(f"<{style}>{text}</>" if style else text for style, text in joined)


def _style(found: re.Match[str]) -> str:
    words = [_STYLES[code] for code in found[1].split(";") if code != "0"]
    return f"<{' '.join(words)}>" if words else "</>"


class _Words(HTMLParser):
    """Gathers words by block, cells and samples with their class.

    Pictures and scripts are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        if tag in _SILENT:
            self.silent += 1
        elif tag in ("th", "td"):
            coloured = set((known.get("class") or "").split()) - {"n", "empty"}
            self.blocks[-1] += " | " + "".join(f"<{name}>" for name in sorted(coloured))
        elif tag in ("h1", "h2", "p", "tr", "summary", "pre", "footer"):
            self.blocks.append({"h1": "# ", "h2": "## ", "summary": "> "}.get(tag, ""))
        elif tag in ("div", "span") and known.get("class") in (None, "tile", "value", "note", "key"):
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in _SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent and self.blocks and data != "\xa0":
            self.blocks[-1] += re.sub(r"\s+", " ", data)


def page_words(page: str) -> list[str]:
    """Words of a page by paragraph, tile, key and row.

    Cells with bars and coloured ones have their class.
    """
    words = _Words()
    words.feed(page.partition("<body>")[2])
    return [block for block in (block.strip() for block in words.blocks) if block]
