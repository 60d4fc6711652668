"""Shares of the mechanisms: how faithful a replay is without each, and what jobs waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.calibration.fidelity.judge import Fidelity
from mirage.calibration.fit import Slice, judged
from mirage.calibration.mechanisms import NAMES, Mechanisms, Site

PLAIN, ALL, HELD = "plain", "all", "held"


@dataclass(frozen=True, slots=True)
class Share:
    """The fidelity of one choice of mechanisms on both slices.

    Attributes:
        name: ``plain`` (as the settings say, nothing fitted), ``all``, the mechanism left out, or ``held``: all, and
            jobs held for as long as none explains, which is a bound, as it takes the recorded starts.
        fitted: On the slice that was fitted to.
        judged: On the one after it.
    """

    name: str
    fitted: Fidelity
    judged: Fidelity


@dataclass(frozen=True, slots=True)
class Waits:
    """What the jobs of a slice waited for.

    Attributes:
        recorded: The share of each of ``wait_causes.CAUSES``, as recorded.
        replayed: The same of a replay with all mechanisms, in which nothing is unexplained: what is called so there is
            how wrong the shares are.
        unexplained_moving_average: As ``WaitCauses.unexplained_moving_average``, as recorded.
    """

    recorded: dict[str, float]
    replayed: dict[str, float]
    unexplained_moving_average: float | None


def waits(site: Site, best: Mechanisms, stretch: Slice) -> Waits:
    """What the jobs of a slice waited for, by the fitted mechanisms."""
    jobs = stretch.with_warm_up(site.jobs)
    played = site.replay(best, jobs, from_s=stretch.replay_from_s)
    recorded = site.wait_causes(best, jobs)
    replayed = site.wait_causes(best, played[played.start_s >= 0].sorted_by_submit())
    span = (stretch.from_s, stretch.until_s)
    return Waits(recorded.shares(*span), replayed.shares(*span), recorded.unexplained_moving_average(*span))


def shares(site: Site, best: Mechanisms, fitted: Slice, after: Slice, resamples: int = 1000) -> Iterator[Share]:
    """The plain replay, the one with all mechanisms, those without each, and the bound.

    Args:
        site: The cluster.
        best: The fitted mechanisms.
        fitted: The slice that they were fitted to.
        after: The slice to judge by.
        resamples: Draws for the intervals on that slice.
    """
    plain = Mechanisms(age=site.settings.weight_age, fairshare=site.settings.weight_fairshare)
    rows = [(PLAIN, plain, False), (ALL, best, False)]
    rows += [(name, best.without(name), False) for name in NAMES if best.without(name) != best]
    for name, chosen, held in [*rows, (HELD, best, True)]:
        yield Share(
            name,
            judged(site, chosen, fitted, held=held),
            judged(site, chosen, after, held=held, resamples=resamples),
        )
