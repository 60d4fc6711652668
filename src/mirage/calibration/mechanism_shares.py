"""Shares of the mechanisms: fidelity of a replay without each, and causes of waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fit_mechanisms import TraceSlice, judged
from mirage.calibration.mechanisms import NAMES, Mechanisms, Site

PLAIN, ALL, HELD = "plain", "all", "held"


@dataclass(frozen=True, slots=True)
class MechanismFidelity:
    """The fidelity of one choice of mechanisms on both slices.

    Attributes:
        name: ``plain`` (the settings as declared, nothing fitted), ``all``, the mechanism left out, or ``held``: all,
            and jobs held as long as none explains their wait, which is a bound, as it uses the recorded starts.
        fitted: On the slice that was fitted to.
        judged: On the slice after it.
    """

    name: str
    fitted: Fidelity
    judged: Fidelity


@dataclass(frozen=True, slots=True)
class WaitCauseShares:
    """Causes of waits of the jobs of a slice.

    Attributes:
        recorded: The share of each of ``wait_causes.CAUSES``, as recorded.
        replayed: The same shares in a replay with all mechanisms. Nothing is unexplained there, so the share of that
            name is the error of the shares.
        unexplained_moving_average: See ``WaitCauses.unexplained_moving_average``, as recorded.
    """

    recorded: dict[str, float]
    replayed: dict[str, float]
    unexplained_moving_average: float | None


def waits(site: Site, best: Mechanisms, stretch: TraceSlice) -> WaitCauseShares:
    """Returns the causes of waits of the jobs of a slice under the fitted mechanisms."""
    jobs = stretch.with_warm_up(site.jobs)
    played = site.replay(best, jobs, from_s=stretch.replay_from_s)
    recorded = site.wait_causes(best, jobs)
    replayed = site.wait_causes(best, played[played.start_s >= 0].sorted_by_submit())
    span = (stretch.from_s, stretch.until_s)
    return WaitCauseShares(recorded.shares(*span), replayed.shares(*span), recorded.unexplained_moving_average(*span))


def shares(
    site: Site, best: Mechanisms, fitted: TraceSlice, after: TraceSlice, resamples: int = 1000
) -> Iterator[MechanismFidelity]:
    """Yields the plain replay, that with all mechanisms, those without each, and the bound.

    Args:
        site: The cluster.
        best: The fitted mechanisms.
        fitted: The slice that they were fitted to.
        after: The slice to judge on.
        resamples: Resamples for the intervals on that slice.
    """
    plain = Mechanisms(age=site.settings.weight_age, fairshare=site.settings.weight_fairshare)
    rows = [(PLAIN, plain, False), (ALL, best, False)]
    rows += [(name, best.without(name), False) for name in NAMES if best.without(name) != best]
    for name, chosen, held in [*rows, (HELD, best, True)]:
        yield MechanismFidelity(
            name,
            judged(site, chosen, fitted, held=held),
            judged(site, chosen, after, held=held, resamples=resamples),
        )
