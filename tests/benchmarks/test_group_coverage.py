"""Coverage of intervals by group: a known answer."""

import numpy as np

from group_coverage import coverage_by

LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])


def test_coverage_by_group():
    quantiles = np.tile(np.array([-3.0, -2, -1, 0, 1, 2, 3]), (4, 1))
    by = coverage_by(np.array([0.0, 0.0, 9.0, 0.0]), quantiles, LEVELS, np.array([1, 1, 2, 2]))
    assert {group: (n, figures["coverage_95"]) for group, (n, figures) in by.items()} == {1: (2, 1.0), 2: (2, 0.5)}
