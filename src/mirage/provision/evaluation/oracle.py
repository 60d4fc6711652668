"""The oracle and other references of a score: reactive, constant leads, exact waits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import EXACT_WAIT, ORACLE, ORACLE_HOLDS
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.policy_outcome import PolicyOutcome

REACTIVE = "reactive"


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
