"""Choice of a policy by rolling origin: the best in the hand-overs known so far.

The choice begins with a default and changes only where another policy was better beyond doubt in a paired test. It is
made again every week, as on a real site, from the hand-overs that were over by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mirage.duration import WEEK_S
from mirage.policy.cost import Cost
from mirage.policy.policy_choice import PolicyChoice
from mirage.provision.evaluation.candidate import Candidate, each_cost
from mirage.provision.evaluation.evaluation_study import Study, WindowTrial
from mirage.provision.evaluation.paired import ComparedWindows, corrected_in_table, verdict_of
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import submissions_s
from mirage.provision.policies.auto import Auto

FEWEST = 8
"""With fewer known hand-overs the default stays."""

LONGEST_S = 12 * WEEK_S
"""Older hand-overs do not count: users and queues change."""


def with_choices(study: Study, trials: tuple[WindowTrial, ...]) -> tuple[WindowTrial, ...]:
    """Returns trials with the outcomes of candidates that choose among others.

    Args:
        study: What was played; the policies to choose from are among its candidates.
        trials: By window, all of one size of link.
    """
    for candidate in study.candidates:
        if candidate.members:
            trials = _chosen(study, candidate, trials)
    return trials


def _chosen(study: Study, candidate: Candidate, trials: tuple[WindowTrial, ...]) -> tuple[WindowTrial, ...]:
    cost = candidate.cost or Cost()
    keys = {name: each_cost(name, [cost])[0].key for name in candidate.members}
    outcomes = {name: PolicyOutcome.of_keys(name, [key] * len(trials), trials) for name, key in keys.items()}
    policy = replace(candidate, private=False).make(study.scenario, study.seed)
    assert isinstance(policy, Auto)
    link = trials[0].episode.link
    choices = weekly_choices(trials, outcomes, policy.choice(link.nodes, link.limit_s), cost)
    return tuple(_as_chosen(one, candidate.key, choice, keys) for one, choice in zip(trials, choices))


def _as_chosen(trial: WindowTrial, key: str, choice: PolicyChoice, keys: Mapping[str, str]) -> WindowTrial:
    """The trial with the outcome of a choice, which is that of the chosen policy."""
    of_member = keys[choice.policy]
    followed = {key: trial.followed[of_member]} if of_member in trial.followed else {}
    return replace(
        trial,
        chosen=trial.chosen | {key: trial.chosen[of_member]},
        calls=trial.calls | {key: trial.calls[of_member]},
        followed=trial.followed | followed,
        decided_by=trial.decided_by | {key: choice.policy},
    )


def weekly_choices(
    trials: Sequence[WindowTrial], outcomes: Mapping[str, PolicyOutcome], default: PolicyChoice, cost: Cost
) -> list[PolicyChoice]:
    """Returns the choice in each window, from what was known at the beginning of its week.

    A hand-over is known once the next link has started under all of these policies, and of a reactive chain.

    Args:
        trials: By window, all of one size of link.
        outcomes: Of the policies to choose from, by name.
        default: The choice without known hand-overs; one of these policies.
        cost: Cost of an hour of interruption and of overlap.
    """
    submitted_s = submissions_s(trials)
    ends_s, reactive_s = np.array([(t.episode.ends_s, t.episode.reactive_s) for t in trials], dtype=np.float64).T
    known_s = ends_s + np.max([np.maximum(reactive_s, 0), *(one.interruption_s for one in outcomes.values())], axis=0)
    found: dict[int, PolicyChoice] = {}
    choice = default
    for week_s in sorted({int(at_s) // WEEK_S * WEEK_S for at_s in submitted_s}):
        known = np.flatnonzero((known_s <= week_s) & (submitted_s >= week_s - LONGEST_S))
        of_known = {name: one.of_windows(known) for name, one in outcomes.items()}
        found[week_s] = choice = better_choice(choice, [trials[k] for k in known.tolist()], of_known, cost)
    return [found[int(at_s) // WEEK_S * WEEK_S] for at_s in submitted_s]


def better_choice(
    choice: PolicyChoice, trials: Sequence[WindowTrial], outcomes: Mapping[str, PolicyOutcome], cost: Cost
) -> PolicyChoice:
    """Returns the best policy that is better beyond doubt; else the present one.

    Args:
        choice: The present choice.
        trials: Known hand-overs, all of one size of link.
        outcomes: Of every policy in them, by name.
        cost: Cost of an hour of interruption and of overlap.
    """
    if len(trials) < FEWEST or choice.policy not in outcomes:
        return choice
    base, others = outcomes[choice.policy], [one for name, one in outcomes.items() if name != choice.policy]
    table = ComparedWindows.of_all(trials)
    tests = [table.test(one, base, cost) for one in others]
    p_values = corrected_in_table([(one, test.p_value if test else None) for one, test in zip(others, tests)])
    best, most = choice, 0.0
    for one, test, p_value in zip(others, tests, p_values):
        saved = float((base.costs(cost) - one.costs(cost)).mean())
        if test is None or verdict_of(-saved, p_value) != "better" or saved <= most:
            continue
        most = saved
        why = (
            f"in {len(trials)} hand-overs of this site it cost {saved:.2f} less than {base.policy} "
            f"({-test.interval[1]:.2f} … {-test.interval[0]:.2f})"
        )
        best = PolicyChoice(one.policy, why, choice.nodes, choice.limit_s, choice.cost_ratio, choice.bank_age)
    return best
