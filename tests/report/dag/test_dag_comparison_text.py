"""A comparison of stage schedulers on the terminal: rows and differences of each setting."""

from __future__ import annotations

import pytest

from mirage.dag.compare.dag_comparison import DagComparison
from mirage.dag.compare.dag_comparison_rows import ONE_SEED
from mirage.report.dag.dag_comparison_text import print_comparison
from tests.support.made_up_dag_rows import less, row


def lines_of(comparison: DagComparison, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_comparison(comparison)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_every_setting_has_its_rows_and_differences(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        row("fifo", "50/200", 1500.25), row("fair", "50/200", 487.91, moves=20.6, idle_share=0.5),
        row("fifo", "5/6", 12.0, seeds=1),
    )  # fmt: skip
    bare = {"low_s": None, "high_s": None, "makespan_low_s": None, "makespan_high_s": None, "no_interval": ONE_SEED}
    differences = (less("fair", "50/200"), less("sjf", "50/200", mean_jct_s=3.0, percent=0.25, better_seeds=1, **bare))
    assert lines_of(DagComparison(rows, differences), capsys) == [
        "50 executors, 200 jobs, 3 seeds; no order ends before 2,000 s",
        "policy   mean JCT    p95 JCT  makespan  moves    idle  decision",
        "fifo    1,500.2 s  1,234.6 s   2,346 s  1,017  12.4 %   1.23 µs",
        "fair      487.9 s  1,234.6 s   2,346 s     21  50.0 %   1.23 µs",
        "mean JCT minus that of fifo, paired by seed; then the makespan",
        "policy  difference       95 % interval  percent  faster on  makespan   95 % interval",
        "fair    -1,012.3 s  -2,000.4 … -24.5 s  -12.3 %          2    +5.2 s  -1.0 … +11.5 s",
        "sjf         +3.0 s      none: one seed   +0.2 %          1    +5.2 s  none: one seed",
        "",
        "5 executors, 6 jobs, 1 seed; no order ends before 2,000 s",
        "policy  mean JCT    p95 JCT  makespan  moves    idle  decision",
        "fifo      12.0 s  1,234.6 s   2,346 s  1,017  12.4 %   1.23 µs",
    ]


def test_without_another_scheduler_there_are_no_differences(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(DagComparison((row("fifo", "5/6", 12.0),), ()), capsys)
    assert len(lines) == 3
    assert "minus" not in "".join(lines)
