"""Outcome of a policy in an evaluation: interruption, overlap and lead of every hand-over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.policy.cost import Cost
from mirage.provision.evaluation.evaluation_study import WindowTrial


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
