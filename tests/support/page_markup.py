"""Contents of a page: its tables, tiles and headings as plain values."""

from __future__ import annotations

import re
from html import unescape


def tables(page: str) -> list[list[list[str]]]:
    """The cells of every table, its heads first."""
    return [
        [_cells(row) for row in re.findall(r"<tr>.*?</tr>", one)]
        for one in re.findall(r"<table.*?</table>", page, re.DOTALL)
    ]


def classes(page: str) -> list[list[str]]:
    """The classes of the cells of every row that is no head."""
    return [re.findall(r'<td(?: class="([^"]*)")?', row) for row in re.findall(r"<tr>.*?</tr>", page) if "<td" in row]


def tiles(page: str) -> list[tuple[str, str, str]]:
    """Name, value and note of every tile."""
    found = r'<div class="name">(.*?)</div><div class="value">(.*?)</div><div class="note">(.*?)</div>'
    return [(_text(a), _text(b), _text(c)) for a, b, c in re.findall(found, page)]


def headings(page: str) -> list[str]:
    """The headings of all sections."""
    return [_text(one) for one in re.findall(r"<h2>(.*?)</h2>", page)]


def paragraphs(page: str) -> list[str]:
    """The paragraphs of the page, the lead first."""
    return [_text(one) for one in re.findall(r"<p[^>]*>(.*?)</p>", page)]


def _cells(row: str) -> list[str]:
    return [_text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]


def _text(markup: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", markup)).replace("\xa0", "")
