"""Moving average of waits: the recorded and the simulated mean over windows of two weeks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.calibration.fidelity.pair import Pair
from mirage.duration import DAY_S
from mirage.job_state import Floats, Ints

WINDOW_S, STEP_S = 14 * DAY_S, DAY_S
FEWEST_JOBS = 20
"""A window with fewer jobs tells the luck of single ones."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of two weeks: means over the jobs that were submitted within it.

    Attributes:
        begin_s: Its first second.
        jobs: How many were submitted within it.
        recorded_wait_s: Mean recorded wait.
        simulated_wait_s: Mean simulated wait.
    """

    begin_s: int
    jobs: int
    recorded_wait_s: float
    simulated_wait_s: float


@dataclass(frozen=True, slots=True)
class MovingAverage:
    """The error of the moving average; ``None`` where no window is left.

    Attributes:
        window_s: Length of a window.
        step_s: Distance from one to the next.
        fewest_jobs: A window with fewer is left out.
        windows: Those that count, in order.
        too_few_jobs: Windows left out for that.
        no_wait: Windows left out since nobody waited, as recorded: there is no share of nothing.
        mape: Mean over windows of ``|simulated − recorded|`` / recorded.
        bias: Mean over windows of (simulated − recorded) / recorded.
        largest: The largest ``|simulated − recorded|`` / recorded.
    """

    window_s: int
    step_s: int
    fewest_jobs: int
    windows: tuple[Window, ...]
    too_few_jobs: int
    no_wait: int
    mape: float | None
    bias: float | None
    largest: float | None


def moving_average(pair: Pair, from_s: int, until_s: int) -> MovingAverage:
    """Compare mean waits over windows of 14 days, a day apart, that lie wholly within a span of days.

    The mean absolute percentage error of the two-week moving average of waits is what FastSim reports for four months
    of ARCHER2: 7.3 %.

    Args:
        pair: The jobs; each counts when it was submitted, as recorded.
        from_s: First second of the span.
        until_s: The second behind the span.
    """
    begin_s = np.arange(from_s, until_s - WINDOW_S + 1, STEP_S)
    submit_s = pair.jobs.submit_s
    edges = (np.searchsorted(submit_s, begin_s), np.searchsorted(submit_s, begin_s + WINDOW_S))
    jobs = edges[1] - edges[0]
    recorded, simulated = (_means(wait_s, *edges) for wait_s in (pair.jobs.wait_s, pair.wait_s))
    enough = jobs >= FEWEST_JOBS
    counts = enough & (recorded > 0)
    error = (simulated[counts] - recorded[counts]) / recorded[counts]
    columns = (begin_s[counts], jobs[counts], recorded[counts], simulated[counts])
    return MovingAverage(
        WINDOW_S,
        STEP_S,
        FEWEST_JOBS,
        tuple(Window(*row) for row in zip(*(column.tolist() for column in columns))),
        too_few_jobs=int((~enough).sum()),
        no_wait=int((enough & (recorded <= 0)).sum()),
        mape=float(np.abs(error).mean()) if len(error) else None,
        bias=float(error.mean()) if len(error) else None,
        largest=float(np.abs(error).max()) if len(error) else None,
    )


def _means(wait_s: Ints, begin: Ints, end: Ints) -> Floats:
    """Mean of the waits from each place to another; 0 where there are none."""
    so_far = np.concatenate([[0], np.cumsum(wait_s)])
    means: Floats = (so_far[end] - so_far[begin]) / np.maximum(end - begin, 1)
    return means
