"""Fits the mechanisms of a cluster to a slice of its trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from mirage.calibration.fidelity.judge_fidelity import Fidelity, judge
from mirage.calibration.inferred.capacity import ran
from mirage.calibration.inferred.think_times import LONGEST_S
from mirage.calibration.inferred.user_job_limit import user_job_limit
from mirage.calibration.mechanisms import Mechanisms, Site, Wfp
from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.trace.table import JobTable

WARM_UP_S = 14 * DAY_S
"""A replay begins this long before the slice that is judged."""

SHORTEST_S = 14 * DAY_S
"""A slice contains at least one window of the moving average."""

WEIGHTS = (0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""Candidate weights, as multiples of the weight of age in the settings."""

DIPS_S = (None, *(hours * HOUR_S for hours in (12, 24, 48, 96, 168)))
TURNOVERS_S = (0, 15, 30, 60, 120)

WFPS = tuple(
    Wfp(size, 3.0, limit, longest_s)
    for size, limit, longest_s in product((0.0, 1.0, 2.0, 3.0), (1.5, 3.0, 4.5, 6.0), (UNLIMITED_S, DAY_S // 2))
)
"""Candidate orders where no priorities are recorded; at ALCF, limits beyond 12 hours all count as 12 hours."""

MOST_TRIES = 1000
"""Of more combinations than this, this number is drawn, half of them with each kind of priority."""

ORIGIN_TRIES = 0.25
"""Share of these combinations that is tried at each origin of ``held_back``."""

FEWEST_TRIES = 50
MOST_REPLAYED = 50_000_000
"""Upper bound on the jobs replayed in combinations, about ten minutes: for a larger site fewer combinations are drawn,
but at least ``FEWEST_TRIES``."""

FEWEST_USERS = 5
"""With fewer users, fair-share is not modelled."""

OnTry = Callable[[int, int, float], None]
"""Called after every replay with the number of replays, their maximum, and the smallest error so far."""


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """A slice of a trace: jobs count if they were submitted within it.

    Attributes:
        from_s: Its first second.
        until_s: First second after it.
    """

    from_s: int
    until_s: int

    def __post_init__(self) -> None:
        if self.until_s - self.from_s < SHORTEST_S:
            days = (self.until_s - self.from_s) / DAY_S
            raise ConfigurationError(
                f"a slice of {days:.1f} days is too short to fit to or to judge by: it must span at least two weeks"
            )

    @property
    def replay_from_s(self) -> int:
        """First second of the slice's replay."""
        return self.from_s - WARM_UP_S

    def with_warm_up(self, jobs: JobTable) -> JobTable:
        """Returns the jobs of the slice and its warm-up of two weeks.

        These include jobs that run or wait when the warm-up begins.
        """
        return jobs[(jobs.end_s > self.replay_from_s) & (jobs.submit_s < self.until_s)]

    def within(self, jobs: JobTable) -> JobTable:
        """Returns the jobs submitted within the slice."""
        return jobs[(jobs.submit_s >= self.from_s) & (jobs.submit_s < self.until_s)]


def judged(site: Site, chosen: Mechanisms, stretch: TraceSlice, *, held: bool = False, resamples: int = 0) -> Fidelity:
    """Judges the fidelity of a slice's replay, over the jobs that ran.

    Args:
        site: The cluster.
        chosen: The modelled mechanisms.
        stretch: The slice.
        held: See ``Site.replay``.
        resamples: See ``judge``.
    """
    jobs = stretch.with_warm_up(site.jobs)
    played = site.replay(chosen, jobs, held, stretch.replay_from_s)
    return judge(jobs[ran(jobs)], played, from_s=stretch.from_s, until_s=stretch.until_s, resamples=resamples)


def error(fidelity: Fidelity) -> float:
    """Objective of the fit: relative error of the moving average + 1 − rank correlation."""
    off, order = fidelity.moving_average.mape, fidelity.rank_correlation.value
    return (1.0 if off is None else off) + 1.0 - (0.0 if order is None else order)


def allowed_choices(site: Site, stretch: TraceSlice, left_out: Collection[str] = ()) -> dict[str, Sequence[Any]]:
    """Returns the candidate values of each mechanism; only its neutral one if it is left out."""
    neutral = Mechanisms()
    return {
        name: (getattr(neutral, name),) if name in left_out else values
        for name, values in choices(site, stretch).items()
    }


def choices(site: Site, stretch: TraceSlice) -> dict[str, Sequence[Any]]:
    """Returns the candidate values of each mechanism.

    A mechanism for which the trace has no data gets only the value that turns it off.
    """
    jobs = stretch.within(site.jobs)
    limit = None if site.declares_user_jobs else user_job_limit(jobs)
    weights = [share * (site.settings.weight_age or 1000.0) for share in WEIGHTS]
    has_priorities = site.usual_priority != MISSING
    down = [stretch.from_s <= one.start_s < stretch.until_s for one in site.shutdowns]
    users = len(np.unique(jobs.user.codes[jobs.user.codes >= 0]))
    return {
        "dip_s": DIPS_S,
        "user_jobs": (None, limit.most) if limit else (None,),
        "recorded": (False, True) if has_priorities else (False,),
        "age": weights,
        "fairshare": weights if users >= FEWEST_USERS and not has_priorities else (0.0,),
        "size": (0.0,) if has_priorities else (*(-weight for weight in weights[:0:-1]), *weights),
        "wfp": (None,) if has_priorities else (None, *WFPS),
        "shutdowns": (False, True) if any(down) else (False,),
        "think_time_s": (0, LONGEST_S) if users >= FEWEST_USERS else (0,),
        "turnover_s": TURNOVERS_S,
    }


def replays_at_most(site: Site, stretch: TraceSlice, tries: float = 1.0, left_out: Collection[str] = ()) -> int:
    """Returns the largest number of replays of a fit; the arguments are those of ``fit``."""
    values = allowed_choices(site, stretch, left_out)
    kinds = _kinds(values)
    most = _tries(site, stretch, tries) // len(kinds)
    return sum(min(prod(map(len, kind.values())), most) for kind in kinds) + 2 * sum(map(len, values.values()))


def counted(on_try: OnTry | None, before: int, most: int) -> OnTry | None:
    """Returns a callback of one fit of several, which counts the replays of all of them.

    Args:
        on_try: The callback of all.
        before: Replays of the fits before.
        most: Maximum of replays of all.
    """
    return None if on_try is None else lambda done, _, least: on_try(before + done, most, least)


def _tries(site: Site, stretch: TraceSlice, share: float) -> int:
    affordable = MOST_REPLAYED // max(len(stretch.with_warm_up(site.jobs)), 1)
    return max(int(min(MOST_TRIES, max(affordable, FEWEST_TRIES)) * share), 1)


def fit(
    site: Site,
    stretch: TraceSlice,
    on_try: OnTry | None = None,
    *,
    left_out: Collection[str] = (),
    tries: float = 1.0,
) -> Mechanisms:
    """Returns the mechanisms with the smallest error in a replay of a slice.

    All combinations are tried, or ``MOST_TRIES`` drawn from them, fewer for very many jobs. Then every value of each
    mechanism is tried with the best values of the others, twice.

    Args:
        site: The cluster.
        stretch: The slice to fit to.
        on_try: Called after every replay.
        left_out: Names of mechanisms that are not tried.
        tries: Share of the combinations that is tried.
    """
    values = allowed_choices(site, stretch, left_out)
    chosen = combinations(values, _tries(site, stretch, tries))
    most = len(chosen) + 2 * sum(map(len, values.values()))
    tried: dict[Mechanisms, float] = {}

    def missed(chosen: Mechanisms) -> float:
        chosen = chosen.settled()
        if chosen not in tried:
            tried[chosen] = error(judged(site, chosen, stretch))
            if on_try is not None:
                on_try(len(tried), most, min(tried.values()))
        return tried[chosen]

    best = min(chosen, key=missed)
    for _ in range(2):
        for name, those in values.items():
            best = min((replace(best, **{name: value}) for value in those), key=missed)
    return best.settled()


def _kinds(values: dict[str, Sequence[Any]]) -> list[dict[str, Sequence[Any]]]:
    """Returns the candidate values with weighted sums, and those with WFP orders, if any."""
    orders = [order for order in values.get("wfp", ()) if order is not None]
    kinds = [{**values, "wfp": (None,)}]
    if orders:
        kinds.append(
            {**values, "recorded": (False,), "age": (0.0,), "fairshare": (0.0,), "size": (0.0,), "wfp": orders}
        )
    return kinds


def combinations(values: dict[str, Sequence[Any]], tries: int) -> list[Mechanisms]:
    """Returns all combinations, or ``tries`` of them: half weighted sums, half WFP orders."""
    drawn = []
    kinds = _kinds(values)
    for kind in kinds:
        every = [Mechanisms(**dict(zip(kind, chosen))) for chosen in product(*kind.values())]
        most = tries // len(kinds)
        if len(every) > most:
            every = [every[k] for k in np.random.default_rng(0).choice(len(every), most, replace=False)]
        drawn += every
    return drawn
