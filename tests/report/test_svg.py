"""SVG as text."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from mirage.extras import install
from mirage.report.html_page import page, table, tiles
from mirage.report.pages.evaluation_page import draw_frontiers, kind_of
from mirage.report.picture import Bar, Label, Picture
from mirage.report.svg import element, mark_svg, number, svg_file
from mirage.report.theme import CHART, COLOURS, DARK, LIGHT


def test_what_is_written_is_escaped():
    text = element("text", mark_svg(Label("a < b & c", 1, 2)), hint='"quoted" <x>', data_name=None)
    root = ElementTree.fromstring(text)
    assert root.get("hint") == '"quoted" <x>'
    assert root[0].text == "a < b & c"


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1.239, "1.24"), (0.5, "0.5"), (-2.0, "-2"), (1e-9, "0")])
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_a_picture_has_a_description_and_can_stand_alone():
    picture = svg_file(Picture(10, 5, [Bar(0, 0, -1, 2, "gap", "a hint")], "a < b"))
    root = ElementTree.fromstring(picture)
    assert root.find("{*}title").text == "a < b"
    assert "prefers-color-scheme" in root.find("{*}style").text
    assert root.find("{*}rect").get("width") == "0"


def test_both_themes_name_the_same_roles_and_every_role_used_is_one():
    assert LIGHT.keys() == DARK.keys()
    import re

    from mirage.report import html_page

    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", COLOURS + CHART + html_page._STYLE))
    assert used <= LIGHT.keys()


def test_text_on_a_page_is_escaped():
    text = page("<h>", "a & b", tiles([("<name>", "1", "")]), table(["x"], [[("<td>", "gap")]]))
    assert "<h>" not in text
    assert "&lt;name&gt;" in text
    assert '<td class="gap">&lt;td&gt;</td>' in text


def test_an_unknown_kind_of_picture_is_refused_before_anything_is_drawn(monkeypatch):
    from mirage.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match=r"must end in \.svg"):
        draw_frontiers(None, "frontier.bmp", {})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=re.escape(install("plot"))):
        kind_of("frontier.png")
