"""``mirage demo``, from the command to the report."""

import json
import re
from html.parser import HTMLParser

import pytest

from mirage.cli import main

VOID = {"meta", "br", "img", "input", "link", "hr", "rect", "line", "circle", "polyline", "polygon"}


class Outline(HTMLParser):
    """Checks that tags close in order, and collects what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A demonstration of five days, with fewer futures: its JSON and its page."""
    out = tmp_path_factory.mktemp("demo") / "demo.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mirage.chains.demonstration.FUTURES", 4)
        patch.setattr("mirage.chains.demonstration.SHOWN_DAYS", 5)
        printed = []
        patch.setattr("click.echo", lambda text, **_: printed.append(text))
        assert main(["demo", "--json", "--seed", "3", "--workers", "1", "-o", str(out)]) == 0
    return json.loads(printed[0]), out.read_text()


@pytest.mark.slow
def test_the_report_stands_alone(shown):
    _, page = shown
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.fetched == []
    assert {"svg", "table", "details", "style"} <= set(outline.tags)
    assert re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page) == []


@pytest.mark.slow
def test_the_report_has_both_themes_and_the_command(shown):
    report, page = shown
    assert "prefers-color-scheme: dark" in page
    assert report["command"] in page
    assert report["command"].startswith("mirage demo --seed 3 --interruption-cost 3 --overlap-cost 1 -o demo.html")


@pytest.mark.slow
def test_the_figures_add_up(shown):
    report, page = shown
    assert {(chain["policy"], chain["link_nodes"]) for chain in report["chains"]} == {
        ("reactive", 8), ("what-if", 8), ("auto", 8)
    }  # fmt: skip
    for chain in report["chains"]:
        assert len(chain["hand_overs"]) >= 2
        lost_s = sum(h["interruption_s"] for h in chain["hand_overs"])
        assert chain["interruption_h"] == pytest.approx(lost_s / 3600)
        assert f"{chain['interruption_h']:.1f} h interruption" in page
    assert 0.5 < report["utilisation"] <= 1


def test_a_folder_that_is_not_there_is_named_before_the_work(capsys):
    assert main(["demo", "-o", "/no/such/folder/demo.html"]) == 1
    assert "there is no folder /no/such/folder" in capsys.readouterr().err
