"""Power of the paired test, on a journal written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.study.paired_test import independent_windows
from tests.support.benchmark_module import benchmark_module
from tests.support.made_up_windows import at, trial

POWER = benchmark_module("evaluation/paired_power.py")


def test_the_table_has_both_intervals_and_both_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``rare`` is never late here, and an hour cheaper than ``steady``.

    ``late`` waits for 9 h in every second window. ``rare`` could have lost 4 h, its lead, or these 9 h, and the limit
    of 12 h in one window more.
    """
    chosen = {"rare": 1, "steady": 0, "late": 2}
    windows = [at(trial(k, [-1, 0, 9 * (k % 2)], chosen), 2 * k * DAY_S) for k in range(40)]
    journal = tmp_path / "evaluation-0.jsonl"
    journal.write_text("".join(json.dumps({"trials": [one.to_json()]}) + "\n" for one in windows[::-1]))
    monkeypatch.setattr(sys, "argv", ["paired_power.py", str(journal), "--policy", "rare", "--draws", "20"])
    POWER.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {line[0]: line[1:] for line in lines if line and line[0] in ("steady", "late", "reactive")}
    assert rows["steady"][:5] == ["-1.00", "(-1.00", "…", "-1.00)", "better"]
    share = 1 - 0.025 ** (1 / independent_windows(2 * DAY_S * np.arange(40)))
    high = -1 + share * (20 * 4**2 + 20 * 9**2 + 12**2) / (20 * 4 + 20 * 9 + 12)
    assert rows["steady"][6:9] == ["…", f"{high:+.2f})", "better"]
    assert rows["late"][0] == rows["reactive"][0] == "-4.50"
    assert rows["late"][-2:] == ["20", "-0.97"], "late in every second window"
    assert lines[-1] == ["rare", "0"]


def test_draws_are_stretches_of_the_windows() -> None:
    chosen = POWER.drawn(np.random.default_rng(0), 10_000, 2.0)
    follows = (np.diff(chosen) % 10_000 == 1).mean()
    assert follows == pytest.approx(1 - 2 / 14, abs=0.02)
