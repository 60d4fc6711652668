"""Choices of policies next to a calibration: stored, replaced, refused elsewhere."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.calibration.site.doctor_finding import choice_findings
from mirage.calibration.site.stored_choices import read_choices, store_choices
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.policy.policy_choice import PolicyChoice

EIGHT = PolicyChoice("holds", "in 20 hand-overs it cost 2.00 less", nodes=8, limit_s=2 * DAY_S, cost_ratio=3.0)
ONE = PolicyChoice("what-if", "none is better", nodes=1, limit_s=DAY_S, cost_ratio=None, bank_age=True)


@pytest.fixture
def files(tmp_path: Path) -> CalibrationFiles:
    return CalibrationFiles(tmp_path, "polaris@ctl1:6817")


def test_a_choice_replaces_the_one_for_the_same_links_alone(files: CalibrationFiles) -> None:
    assert read_choices(files) == ()
    path = store_choices(files, [EIGHT, ONE])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_choices(files) == (EIGHT, ONE)
    better = replace(EIGHT, policy="reactive", reason="it cost less")
    store_choices(files, [better])
    assert read_choices(files) == (ONE, better)
    other = replace(EIGHT, cost_ratio=1.0)
    store_choices(files, [other])
    assert read_choices(files) == (ONE, better, other)


def test_doctor_lists_them(files: CalibrationFiles) -> None:
    assert choice_findings(files) == []
    store_choices(files, [EIGHT, ONE])
    found = [(one.level, one.what, one.value, one.advice) for one in choice_findings(files)]
    assert found == [
        ("ok", "auto", "holds for 8 nodes, 2-00:00:00, costs 3 : 1", EIGHT.reason),
        ("ok", "auto", "what-if for 1 node, 1-00:00:00, overlap free, age gathered", ONE.reason),
    ]


@pytest.mark.parametrize("text", ["[]", "{}", '{"cluster": "vega@ctl9:6817", "choices": []}', "no JSON", "\xff"])
def test_a_file_that_is_something_else_is_reported_and_replaced(files: CalibrationFiles, text: str) -> None:
    files.choices.write_text(text)
    with pytest.raises(ConfigurationError, match=r"polaris.*make it again: mirage calibrate --site"):
        read_choices(files)
    (finding,) = choice_findings(files)
    assert (finding.level, finding.what, finding.value) == ("warn", "auto", "cannot be read")
    store_choices(files, [ONE])
    assert read_choices(files) == (ONE,)
