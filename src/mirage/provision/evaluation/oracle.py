"""The oracle and other references of a score: reactive, constant leads, exact waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import EXACT_WAIT, ORACLE, ORACLE_HOLDS
from mirage.provision.evaluation.evaluation_study import WindowTrial

REACTIVE = "reactive"


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """Hand-overs of one policy in every window: shape (windows,) each.

    Attributes:
        interruption_s: From the end of the last link to the start of the next.
        overlap_s: Time in which both links held nodes, and time that was cut off the next: it ends earlier by that, as
            one that starts earlier does.
        lead_s: End of the last minus submission of the next.
    """

    policy: str
    interruption_s: Floats
    overlap_s: Floats
    lead_s: Floats

    def costs(self, cost: Cost) -> Floats:
        """Cost of every hand-over."""
        return cost.total(self.interruption_s, self.overlap_s)

    def of_windows(self, windows: Ints) -> Self:
        """The outcome in some windows, by their positions."""
        return replace(
            self,
            interruption_s=self.interruption_s[windows],
            overlap_s=self.overlap_s[windows],
            lead_s=self.lead_s[windows],
        )

    @classmethod
    def of_gaps(
        cls, policy: str, gaps_s: Sequence[int] | Floats, lead_s: Sequence[int], cut_s: Sequence[int] = ()
    ) -> Self:
        """The outcome of signed gaps between the links, negative where they overlap.

        Args:
            cut_s: Time cut off each next link; empty where none was.
        """
        gaps = np.array(gaps_s, dtype=np.float64)
        overlap_s = np.maximum(-gaps, 0.0) + (np.array(cut_s, dtype=np.float64) if len(cut_s) else 0.0)
        return cls(policy, np.maximum(gaps, 0.0), overlap_s, np.array(lead_s, dtype=np.float64))

    @classmethod
    def at(cls, policy: str, trials: Sequence[WindowTrial], chosen: Sequence[int]) -> Self:
        """The outcome of one decision in each window."""
        return cls.of_gaps(policy, *gaps_and_leads_s(trials, chosen))

    @classmethod
    def of_keys(cls, policy: str, keys: Sequence[str], trials: Sequence[WindowTrial]) -> Self:
        """The outcome of a played candidate, by its key in each window."""
        gaps_s, leads_s = gaps_and_leads_s(trials, [trial.chosen[key] for trial, key in zip(trials, keys)])
        followed = [trial.followed.get(key) for trial, key in zip(trials, keys)]
        gaps_s = [gap_s if one is None else one.outcome_s for gap_s, one in zip(gaps_s, followed)]
        return cls.of_gaps(policy, gaps_s, leads_s, [0 if one is None else one.lost_s for one in followed])


def gaps_and_leads_s(trials: Sequence[WindowTrial], chosen: Sequence[int]) -> tuple[list[int], list[int]]:
    """Gap and lead of one decision in each window."""
    episodes = [trial.episode for trial in trials]
    gaps_s = [int(e.outcome_s[k]) for e, k in zip(episodes, chosen)]
    return gaps_s, [int(e.ends_s - e.decisions_s[k]) for e, k in zip(episodes, chosen)]


def reactive(trials: Sequence[WindowTrial]) -> PolicyOutcome:
    """Submits every link when the last has ended."""
    return PolicyOutcome.at(REACTIVE, trials, [-1] * len(trials))


def oracle(trials: Sequence[WindowTrial], cost: Cost) -> PolicyOutcome:
    """The cheapest decision of every window in hindsight, the earliest of several."""
    return PolicyOutcome.at(ORACLE, trials, [int(cost.of(t.episode.outcome_s.astype(float)).argmin()) for t in trials])


def exact_wait(trials: Sequence[WindowTrial]) -> PolicyOutcome:
    """The first decision at which the next link would start no earlier than the present ends."""
    late = [trial.episode.outcome_s >= 0 for trial in trials]
    return PolicyOutcome.at(EXACT_WAIT, trials, [int(one.argmax()) if one.any() else -1 for one in late])


def oracle_holds(trials: Sequence[WindowTrial], cost: Cost) -> PolicyOutcome:
    """The cheapest hand-over of every window in hindsight.

    It chooses among all times to submit, and all times to release a held link.

    Raises:
        ConfigurationError: The trials were played without held links.
    """
    if any(trial.held_outcome_s is None for trial in trials):
        raise ConfigurationError(f"these windows were played without {ORACLE_HOLDS}; evaluate it with the others")
    every = [np.array([*trial.episode.outcome_s, *(trial.held_outcome_s or ())], dtype=np.float64) for trial in trials]
    gaps_s = [int(one[cost.of(one).argmin()]) for one in every]
    leads_s = [int(trial.episode.ends_s - trial.episode.decisions_s[0]) for trial in trials]
    return PolicyOutcome.of_gaps(ORACLE_HOLDS, gaps_s, leads_s)


def constant_lead(trials: Sequence[WindowTrial], hours: float) -> PolicyOutcome:
    """The first decision at most this number of hours before the end."""
    episodes = [trial.episode for trial in trials]
    chosen = [int(np.searchsorted(e.decisions_s, e.ends_s - round(hours * HOUR_S))) for e in episodes]
    return PolicyOutcome.at(f"lead:{hours:g}", trials, chosen)
