"""Colours by role: every text can be read on what it stands on, in both themes."""

from __future__ import annotations

import pytest

from mirage.cli.study import DEFAULT_POLICIES
from mirage.report.theme import DARK, LIGHT, SERIES, STYLES, Style, style_of

LEAST = 4.5
"""WCAG 2.1, level AA, for text of any size."""

INKS = ("ink", "muted", "gap", "overlap-ink", "good", *(f"series-{k}" for k in range(1, SERIES + 1)))
PAIRS = [(ink, ground) for ink in INKS for ground in ("card", "page")] + [("on-link", "link"), ("on-link", "link-2")]


def luminance(colour: str) -> float:
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#7ea6ef") == pytest.approx(2.45, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_every_text_can_be_read(theme: dict[str, str], ink: str, ground: str) -> None:
    assert contrast(theme[ink], theme[ground]) >= LEAST


def test_every_policy_judged_by_default_has_a_colour_of_its_own() -> None:
    series = [name for name in DEFAULT_POLICIES.split(",") if name not in ("reactive", "oracle")]
    assert len([name for name in series if not name.startswith("lead:")]) <= SERIES


def test_a_style_is_written_as_declarations() -> None:
    assert Style("ink", "card", 1.5, (4, 2.5), 0.25, bold=True, is_halo=True).css() == (
        "fill: var(--ink); stroke: var(--card); stroke-width: 1.5px; stroke-dasharray: 4 2.5; stroke-linejoin: round; "
        "opacity: 0.25; font-weight: 600; paint-order: stroke;"
    )
    assert Style("none", "gap", 2).css() == "fill: none; stroke: var(--gap); stroke-width: 2px; stroke-linejoin: round;"
    assert Style("gap").css() == "fill: var(--gap);"
    assert (Style(opacity=0).css(), Style().css()) == ("opacity: 0;", "")


def test_lines_hollow_points_and_areas_are_distinguished() -> None:
    kinds = {name: (style_of(name).is_line, style_of(name).is_dot) for name in ("grid", "waited", "gap", "halo", "s1")}
    assert kinds == {
        "grid": (True, False), "waited": (False, True), "gap": (False, False), "halo": (False, False),
        "s1": (False, False),
    }  # fmt: skip


def test_of_several_styles_the_later_one_in_the_list_overrides() -> None:
    both = style_of("hollow s3")
    assert (both.fill, both.stroke, both.width) == ("card", "series-3", 1)
    assert style_of("strong halo") == Style("ink", "card", 4, bold=True, is_halo=True)
    assert style_of("s3 flat").stroke == "none"
    assert style_of("recorded fine").width == 1.4
    assert style_of("") == style_of("unknown") == Style()
    assert style_of("grid") == STYLES["grid"]
