"""Progress without a terminal: a line a minute."""

from __future__ import annotations

import pytest

from mirage.report.terminal.progress_lines import ProgressLines


def test_a_line_is_printed_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 130.0, 159.0, 161.0, 190.0, 222.0])
    lines = ProgressLines("jobs read", lambda: next(times))
    for done in (50, 700, 1_200, 1_900, 2_500):
        lines(done, 4_000)
    assert capsys.readouterr() == (
        "",
        "mirage: jobs read: 1,200 of 4,000 (30%), after 00:01:01\n"
        "mirage: jobs read: 2,500 of 4,000 (62%), after 00:02:02\n",
    )


def test_work_of_unknown_length_has_no_share(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 75.0])
    ProgressLines("jobs", lambda: next(times))(7, 0)
    assert capsys.readouterr().err == "mirage: jobs: 7 of 0, after 00:01:15\n"
