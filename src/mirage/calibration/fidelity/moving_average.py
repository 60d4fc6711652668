"""Moving average of waits: recorded and simulated means over windows of two weeks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.duration import DAY_S

WINDOW_S, STEP_S = 14 * DAY_S, DAY_S
FEWEST_JOBS = 20
"""With fewer jobs, a window is dominated by chance."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of two weeks: means over the jobs submitted within it.

    Attributes:
        begin_s: Its first second.
        jobs: Number of jobs submitted within it.
        recorded_wait_s: Mean recorded wait.
        simulated_wait_s: Mean simulated wait.
    """

    begin_s: int
    jobs: int
    recorded_wait_s: float
    simulated_wait_s: float


@dataclass(frozen=True, slots=True)
class MovingAverage:
    """Error of the moving average; its figures are ``None`` without a window.

    Attributes:
        window_s: Length of a window.
        step_s: Distance from one window to the next.
        fewest_jobs: A window with fewer jobs is left out.
        windows: The windows that count, in order.
        too_few_jobs: Number of windows left out for too few jobs.
        no_wait: Number of windows left out because no recorded job waited: the relative error is not defined.
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


def moving_average(pair: PairedJobs, from_s: int, until_s: int) -> MovingAverage:
    """Compares mean waits over windows of 14 days, one per day, that lie within a span.

    FastSim reports the same figure for four months of ARCHER2: the mean absolute percentage error of the two-week
    moving average of waits is 7.3 %.

    Args:
        pair: The jobs; each counts at its recorded submission.
        from_s: First second of the span.
        until_s: First second after the span.
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
    """Means of the waits between row indexes; 0 where there are none."""
    so_far = np.concatenate([[0], np.cumsum(wait_s)])
    means: Floats = (so_far[end] - so_far[begin]) / np.maximum(end - begin, 1)
    return means
