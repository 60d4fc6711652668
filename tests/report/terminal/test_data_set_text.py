"""A data set on the terminal: its windows by size, month and load class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.learn.dataset.make_data_set import DataSetSummary
from mirage.learn.hand_overs import HandOvers
from mirage.report.terminal.data_set_text import print_data_set, summary_of
from tests.support.made_up_hand_overs import made_up_hand_overs
from tests.support.printed_text import printed

LAST_H = {1: (13, 1, 2, 3, 40, 12), 16: (0, 30)}
"""Outcome of a window's last decision, in hours: the wait of the reactive chain. The two last ones are in March."""


def rows() -> HandOvers:
    """Six windows of one node, and before them two of sixteen: the larger size comes first."""
    parts = []
    for nodes in (16, 1):
        made = made_up_hand_overs(2, nodes=nodes)
        starts_s = made.window_s[0] + np.arange(len(LAST_H[nodes])) * DAY_S
        starts_s[-2:] += 28 * DAY_S
        windows = [made[:24]] * len(LAST_H[nodes])
        for window, start_s, last_h in zip(windows, starts_s, LAST_H[nodes]):
            outcome_s = np.append(np.full(23, -50 * HOUR_S), last_h * HOUR_S)
            parts.append(replace(window, window_s=np.full(24, start_s), outcome_s=outcome_s))
    return HandOvers.joined(parts)


def test_windows_are_counted_by_size_month_and_load() -> None:
    lines = printed(lambda console: print_data_set(rows(), DataSetSummary(12, 5, 90.0), console), 100)
    assert lines == [
        "<dim>nodes of a link  month    light  medium  heavy  windows</>",
        "1                2023-02      2       1      1        4",
        "1                2023-03      0       1      1        2",
        "16               2023-03      1       0      1        2",
        "192 rows of 7 features, 5,760 snapshots, in 12 shards, 5 of them reused; 1.5 CPU minutes",
    ]


def test_a_data_set_made_anew_reuses_nothing() -> None:
    *_, last = printed(lambda console: print_data_set(rows(), DataSetSummary(3, 0, 6.0), console), 100)
    assert last == "192 rows of 7 features, 5,760 snapshots, in 3 shards; 0.1 CPU minutes"


def test_the_summary_has_the_same_figures() -> None:
    found = summary_of(rows())
    assert found == {
        "rows": 192,
        "features": ["remaining_h", "pending_jobs", "gap_q05_h", "gap_q20_h", "gap_q50_h", "gap_q80_h", "gap_q95_h"],
        "snapshots": 5760,
        "windows": [
            {"link_nodes": 1, "month": "2023-02", "light": 2, "medium": 1, "heavy": 1},
            {"link_nodes": 1, "month": "2023-03", "light": 0, "medium": 1, "heavy": 1},
            {"link_nodes": 16, "month": "2023-03", "light": 1, "medium": 0, "heavy": 1},
        ],
    }
