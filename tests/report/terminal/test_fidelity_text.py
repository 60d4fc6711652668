"""Fidelity on the terminal, sign by sign."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.report.terminal.fidelity_text import print_fidelity
from tests.support.report_samples import DAY0, judged

DAY = 86_400


def printed(shown: Fidelity, width: int = 110) -> list[str]:
    out = io.StringIO()
    print_fidelity(shown, "jobs.csv", "simulated.csv", Console(file=out, width=width, highlight=False))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_whole_of_it() -> None:
    assert printed(judged()) == [
        "simulated.csv compared with jobs.csv",
        "submitted 2024-10-04 to 2024-12-12: 336 jobs compared of 336 recorded",
        "",
        "wait           mean    median      75 %      95 %   longest",
        "recorded   03:59:44  04:00:00  06:00:00  08:00:00  08:00:00",
        "simulated  04:59:44  05:00:00  07:00:00  09:30:00  10:00:00",
        "",
        "moving average  off by 25.0% over 57 windows of 14 days (+25.0% in the mean, 25.7% at most)",
        "mean wait       1.25 [1.25, 1.25] of the recorded",
        "single jobs     rank correlation 0.93 [0.93, 0.93], Pearson's 0.93 [0.93, 0.93]",
        "starts          off by 01:00:00 in the mean, 01:00:00 in the median; 50.0% within 60 s, 50.0% within 10 min,",
        "                50.0% within 1 h",
        "busy nodes      8.0 recorded, 8.0 simulated; hour by hour off by 3.2 (39.5% of the mean), correlation 0.47",
        "waiting jobs    0.8 recorded, 1.0 simulated; hour by hour off by 0.2 (25.0% of the mean), correlation 0.74",
        "",
        "waits by class",
        "nodes, limit        jobs  recorded  simulated  distance h    KS  rank correlation",
        "1 node, ≤ 12 h       112  04:01:52   04:01:52        0.00  0.00              1.00",
        "1 node, > 24 h        56  03:53:34   03:53:34        0.00  0.00              1.00",
        "5-16 nodes, ≤ 12 h   112  03:57:19   05:57:19        2.00  0.24              1.00",
        "5-16 nodes, > 24 h    56  04:06:26   06:06:26        2.00  0.25              1.00",
        "all jobs             336  03:59:44   04:59:44        1.00  0.12              0.93",
        "",
        "by month",
        "month    jobs  recorded  simulated  starts off by  rank correlation  Pearson  nodes off by",
        "2024-10   135  03:59:07   04:58:40       00:59:33              0.93     0.93           3.2",
        "2024-11   144  04:00:25   05:00:25       01:00:00              0.93     0.93           3.2",
        "2024-12    57  03:59:28   05:00:32       01:01:03              0.93     0.93           3.2",
        "",
        "brackets: 95 %, from a bootstrap over whole weeks; distance: mean hours between the sorted waits; KS: largest",
        "gap of the distributions",
    ]


def test_what_is_left_out_and_moved_is_printed() -> None:
    shown = judged()
    counts = replace(
        shown.counts,
        recorded=1350,
        only_recorded=1000,
        only_simulated=2,
        recorded_wait_unknown=10,
        simulated_wait_unknown=4,
        submitted_apart=7,
    )
    assert printed(replace(shown, counts=counts, shift_s=-90_000), 200)[1:6] == [
        "submitted 2024-10-04 to 2024-12-12: 336 jobs compared of 1,350 recorded",
        "left out: 1,000 only recorded, 2 only simulated, 10 in both, but without a recorded wait, 4 in both, but "
        "never started in the simulation",
        "the two clocks are 1-01:00:00 apart; simulated times are shifted by this",
        "submitted at different times: 7 jobs; waits count from each one",
        "",
    ]


def test_three_days_have_no_window_and_no_interval() -> None:
    lines = printed(judged(3))
    assert "moving average  none: there is no window of 14 days to compare" in lines
    assert "single jobs     rank correlation 0.95, Pearson's 0.94" in lines
    assert lines[-2].startswith("no intervals: they need jobs on at least eight days; distance:")


def test_a_day_is_one_date_and_one_job_has_no_correlation() -> None:
    lines = printed(judged(70, from_s=DAY0 + 9 * 3600, until_s=DAY0 + 11 * 3600))
    assert lines[1] == "submitted 2024-10-04: 1 job compared of 1 recorded"
    assert "single jobs     rank correlation -, Pearson's -" in lines


def test_windows_left_out_are_counted() -> None:
    shown = judged()
    part = replace(shown.moving_average, too_few_jobs=3, no_wait=1)
    (line,) = [line for line in printed(replace(shown, moving_average=part), 200) if line.startswith("moving")]
    assert line.endswith("25.7% at most); left out: 3 with fewer than 20 jobs, 1 without a recorded wait")
    none = replace(part, windows=(), mape=None, bias=None, largest=None)
    (line,) = [line for line in printed(replace(shown, moving_average=none), 200) if line.startswith("moving")]
    assert line.endswith(
        "no window of 14 days to compare; left out: 3 with fewer than 20 jobs, 1 without a recorded wait"
    )


def test_levels_that_are_not_recorded_are_reported_and_a_narrow_terminal_cuts_nothing() -> None:
    lines = printed(replace(judged(), busy_nodes=None), 60)
    assert "busy nodes      not recorded" in lines
    assert "5-16 nodes, ≤ 12 h" in lines
    assert "  rank correlation  1.00" in lines
    assert max(map(len, lines)) <= 60
