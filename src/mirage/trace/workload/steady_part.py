"""The steady part of a trace: without a rise of its load at first or a fall at the end.

A model has one load. Fitted over a ramp it has the mean of a growing cluster, and the growth counts as weeks that vary
wildly: on Lonestar6, whose first months ramp up, generated jobs then waited for days at 60 % utilisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, WEEK_S
from mirage.trace.statistics.marginals import run_within_limit_s
from mirage.trace.statistics.summary import iso_utc
from mirage.trace.table import JobTable

STEADY_SHARE = 0.75
"""A week belongs to a ramp if less than this share of the median week's work is submitted in it."""

SHORTEST_RAMP = 2
"""A ramp lasts for as many weeks at least; a single quiet week is no ramp."""

FEWEST_WEEKS = 4
"""The steady part is as long at least; otherwise the whole trace is fitted."""


@dataclass(frozen=True, slots=True)
class SteadyPart:
    """The weeks of a trace between its ramps.

    Attributes:
        jobs: Jobs submitted in these weeks.
        from_s: First second.
        until_s: First second after them.
        of_jobs: Jobs of the whole trace.
        usual: Nodes that the work submitted in the median week keeps busy.
        before: Shape (k,), the same of the weeks before, one by one.
        after: Shape (m,), of those after.
    """

    jobs: JobTable
    from_s: int
    until_s: int
    of_jobs: int
    usual: float
    before: Floats
    after: Floats

    @property
    def in_words(self) -> str:
        """The span, and the reason why the rest is left out."""
        reasons = [
            f"in the {len(weeks)} weeks {where} it, jobs need {weeks.mean():.3g} nodes on average; in the median week, "
            f"{self.usual:.3g}"
            for where, weeks in (("before", self.before), ("after", self.after))
            if len(weeks)
        ]
        return (
            f"its steady part from {(iso_utc(self.from_s) or '')[:10]} to {(iso_utc(self.until_s) or '')[:10]}, "
            f"{len(self.jobs):,} of {self.of_jobs:,} jobs: {'; '.join(reasons)}"
        )


def steady_part(table: JobTable) -> SteadyPart | None:
    """Returns the steady part of a trace; ``None`` if this is the whole trace.

    Args:
        table: The trace; jobs without submission, nodes and run time do not count as work.
    """
    run_s = run_within_limit_s(table)
    known = (table.submit_s >= 0) & (table.nodes > 0) & (run_s >= 0)
    if not known.any():
        return None
    first_s = int(table.submit_s[known].min())
    levels = _weekly_nodes(table.submit_s[known] - first_s, (run_s * table.nodes)[known])
    usual = float(np.median(levels)) if len(levels) else 0.0
    steady = np.flatnonzero(levels >= STEADY_SHARE * usual)
    if not len(steady):
        return None
    begin, end = int(steady[0]), int(steady[-1]) + 1
    begin = begin if begin >= SHORTEST_RAMP else 0
    end = end if len(levels) - end >= SHORTEST_RAMP else len(levels)
    if end - begin < FEWEST_WEEKS or end - begin == len(levels):
        return None
    from_s, last_s = first_s + begin * WEEK_S, int(table.submit_s.max()) + 1
    until_s = first_s + end * WEEK_S if end < len(levels) else last_s
    jobs = table[(table.submit_s >= from_s) & (table.submit_s < until_s)]
    return SteadyPart(jobs, from_s, until_s, len(table), usual, levels[:begin], levels[end:])


def _weekly_nodes(since_s: Ints, work: Ints) -> Floats:
    """Returns the work submitted in every week, in busy nodes; the last week may be partial.

    The rest of a trace that is shorter than half a week is left out.
    """
    sums = np.bincount(since_s // WEEK_S, weights=work)
    length_s = np.full(len(sums), float(WEEK_S))
    length_s[-1] = (int(since_s.max()) % WEEK_S // DAY_S + 1) * DAY_S
    levels: Floats = sums / length_s
    return levels if length_s[-1] >= WEEK_S / 2 else levels[:-1]
