"""Progress: a bar on a terminal, and elsewhere a line a minute."""

from __future__ import annotations

import pytest

from mirage.report.terminal.progress import progress_bar, step_line
from tests.support.printed_text import on_a_terminal


def test_without_a_terminal_a_line_is_printed_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 130.0, 159.0, 161.0, 190.0, 222.0])
    with progress_bar("jobs read", clock=lambda: next(times)) as progress:
        for done in (50, 700, 1_200, 1_900, 2_500):
            progress(done, 4_000)
    assert capsys.readouterr() == (
        "",
        "mirage: jobs read: 1,200 of 4,000 (30%), after 00:01:01\n"
        "mirage: jobs read: 2,500 of 4,000 (62%), after 00:02:02\n",
    )


def test_work_of_unknown_length_has_no_share(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 75.0])
    with progress_bar("jobs", clock=lambda: next(times)) as progress:
        progress(7, 0)
    assert capsys.readouterr().err == "mirage: jobs: 7, after 00:01:15\n"


def test_without_a_terminal_a_training_prints_its_last_step_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 59.0, 61.0, 119.0, 121.0])
    with step_line(lambda: next(times)) as done:
        for step in ("fold 1", "fold 2", "fold 3", "final, epoch 4"):
            done(step)
    assert capsys.readouterr() == (
        "",
        "mirage: training: fold 2 done, after 00:01:01\nmirage: training: final, epoch 4 done, after 00:02:01\n",
    )


def test_on_a_terminal_a_bar_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_a_terminal(monkeypatch, lambda: progress_bar("windows"), 3, 7)
    assert "windows" in shown
    assert "3/7" in shown


@pytest.mark.parametrize(("after_s", "shown"), [(1.9, False), (2.0, True)])
def test_a_bar_can_wait_until_the_work_takes_long(monkeypatch: pytest.MonkeyPatch, after_s: float, shown: bool) -> None:
    times = iter([0.0, after_s])
    written = on_a_terminal(monkeypatch, lambda: progress_bar("bytes", 2.0, lambda: next(times)), 30, 120)
    assert ("bytes" in written, "30/120" in written) == (shown, shown)


def test_on_a_terminal_the_last_step_of_a_training_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "training" in on_a_terminal(monkeypatch, step_line, "fold 1")
