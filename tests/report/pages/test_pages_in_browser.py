"""Every page in a real browser on a phone, a tablet and a screen, light and dark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from mirage.policy.cost import Cost
from mirage.report.pages.calibration_page import calibration_page
from mirage.report.pages.chain_evaluation_page import chain_evaluation_page
from mirage.report.pages.chain_page import chain_page
from mirage.report.pages.demo_page import demo_page
from mirage.report.pages.evaluation_page import evaluation_page, evaluation_picture
from mirage.report.pages.fidelity_page import fidelity_page, fidelity_svg
from mirage.report.svg import svg_file
from tests.support.browser import THEMES, WIDTHS, measured
from tests.support.report_samples import (
    CHAIN_PROVENANCE,
    DAY0,
    DECISIONS,
    FACTS,
    MANY,
    PROVENANCE,
    RUN,
    calibration,
    chain_evaluation,
    demonstration,
    evaluation,
    judged,
)

PICTURES = ("picture", "picture of fidelity")
"""An SVG is drawn at one width; it is read on a screen."""

LONG = "/a/folder/with/a/long/name/" * 6


def pages() -> dict[str, str]:
    """One page of each kind, by name."""
    decisions = [asdict(d) | {"time_s": d.now_s, "observed": {"pending_nodes": 5.0}} for d in DECISIONS]
    events = [(DAY0, 1, "submitted", f"job 40 {LONG}"), (DAY0 + 60, 0, "paused", "it rains")]
    few = evaluation([Cost(3, 1)], windows=8)
    svg = svg_file(evaluation_picture(evaluation(), PROVENANCE))
    return {
        "chain": chain_page(RUN, {**FACTS, "why": "it rains"}, decisions, events, "0.1.0"),
        "long chain": chain_page(MANY, FACTS, [], events, "0.1.0"),
        "demo": demo_page(demonstration(), "mirage demo --seed 7", "0.1.0"),
        "frontier": evaluation_page(evaluation(), PROVENANCE),
        "frontier of few windows": evaluation_page(few, {**PROVENANCE, "command": f"mirage evaluate {LONG}"}),
        "chains": chain_evaluation_page(chain_evaluation(costs=[Cost(3, 1), Cost(1, 0)]), CHAIN_PROVENANCE),
        "fidelity": fidelity_page(judged(), "jobs.csv", "simulated.csv", f"mirage trace fidelity {LONG}"),
        "fidelity of three days": fidelity_page(judged(3), "jobs.csv", "simulated.csv", "mirage trace fidelity"),
        "calibration": calibration_page(calibration(), f"mirage calibrate {LONG}", "0.1.0"),
        **{
            name: f'<!DOCTYPE html><html lang="en"><body style="margin:0">{drawn}</body></html>'
            for name, drawn in zip(PICTURES, (svg, fidelity_svg(judged(), "jobs.csv", "simulated.csv")))
        },
    }


@pytest.mark.slow
def test_every_page_can_be_read_at_every_width_in_both_themes() -> None:
    shown = pages()
    found = measured(shown)
    assert {(one["name"], one["width"], one["theme"]) for one in found} == {
        (name, width, theme) for name in shown for width in WIDTHS for theme in THEMES
    }
    assert all(one["texts"] > 20 for one in found)
    faults = [
        f"{one['name']} at {one['width']} px, {one['theme']}: {fault}"
        for one in found
        for fault in one["faults"]
        if one["name"] not in PICTURES or one["width"] == max(WIDTHS)
    ]
    assert faults == []


BAD = """<!DOCTYPE html><html><head><style>body { margin: 0; background: #fff; color: #000; }</style></head><body>
<p style="color: #e8a013">pale</p><p style="font-size: 9px">tiny</p><div style="width: 900px">wide</div>
<svg viewBox="0 0 200 100" width="200" height="100" style="font-size: 14px">
<rect x="0" y="0" width="100" height="30" fill="#7ea6ef"/><text x="4" y="20" fill="#fff">on a bar</text>
<text x="120" y="20">over</text><text x="125" y="22">lying</text><text x="170" y="60">beyond it</text>
<text x="4" y="80">hidden</text><rect x="0" y="60" width="100" height="30" fill="#fff"/>
</svg></body></html>"""


def test_the_probe_finds_every_kind_of_fault(tmp_path: Path) -> None:
    faults = "\n".join(next(one for one in measured({"bad": BAD}) if one["width"] == 400)["faults"])
    for words in (
        'the page is 900 px wide', '"pale" has a contrast of 2.2', '"tiny" is 9 px high',
        '"on a bar" has a contrast of 2.4', '"over" and "lying" lie on one another',
        '"beyond it" is cut off by its chart', '"hidden" is covered by a shape',
    ):  # fmt: skip
        assert words in faults
