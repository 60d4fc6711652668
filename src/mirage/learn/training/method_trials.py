"""Rolling origin: every method is trained before each month, and tested on the month.

Tuning uses the time just before the month. Nothing is simulated: the data have the outcome of every decision, so a
model's result in a window is read off at the first decision at which it submits. Only ``what-if`` has been played
before, in the same windows; it chooses moments between decisions, and its outcomes there are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Flags, TrainingSettings, inputs_at
from mirage.learn.training.folds import Fold, fold
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.trained_policy import LinkSizeModel, train_link_size
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Episode
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.link_size import LinkSize


@dataclass(frozen=True, slots=True)
class RollingOriginPlan:
    """The methods, months, costs and seeds of a rolling origin.

    Attributes:
        methods: Names of methods.
        months: Test months.
        costs: Costs of hours of interruption and overlap.
        seeds: Every method is trained with each; all but the first seed are appended to the name.
    """

    methods: tuple[str, ...]
    months: tuple[str, ...]
    costs: tuple[Cost, ...] = (Cost(),)
    seeds: tuple[int, ...] = (0,)

    def label(self, method: str, seed: int) -> str:
        """The name of a method trained with a seed."""
        return method if seed == self.seeds[0] else f"{method}#{seed}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of all methods with seeds."""
        return tuple(self.label(method, seed) for method in self.methods for seed in self.seeds)


def try_methods(
    data: HandOvers,
    plan: RollingOriginPlan,
    settings: TrainingSettings,
    steps: StoredSteps,
    played: Mapping[int, WindowTrial] | None = None,
) -> tuple[WindowTrial, ...]:
    """The windows of all test months, with each method's choices, in order of time.

    Args:
        data: Decisions about links of one size.
        plan: The methods to try.
        settings: Seed and bounds of the training.
        steps: Where steps are stored.
        played: Submission of the present link → the window as other policies played it; windows that they did not play
            are left out. None to have learned methods only.

    Raises:
        ConfigurationError: A month has no windows, or there is nothing to train on before it.
    """
    found = []
    for month in plan.months:
        of_month = fold(data, month)
        chosen = _choices_of(of_month, plan, settings, steps.under(month))
        found += trials_from(of_month.test, chosen, played)
    return tuple(found)


def trials_of(part: LinkSizeModel, label: str, data: HandOvers, costs: Sequence[Cost]) -> list[WindowTrial]:
    """The windows of some data, with one model's choice at each cost."""
    assert part.model is not None
    decisions = inputs_at(data)
    rows = {Candidate(label, cost).key: submitted_rows(part.model.submits(decisions, cost), data) for cost in costs}
    return trials_from(data, rows, None)


def submitted_rows(submits: Flags, data: HandOvers) -> Ints:
    """Shape (windows,): the first row of each window at which a model submits, or the last."""
    edges = data.windows()
    decided = submits.copy()
    decided[edges[1:] - 1] = True
    position = np.where(decided, np.arange(len(data)), len(data))
    first: Ints = np.minimum.reduceat(position, edges[:-1])
    return first


def _choices_of(
    of_month: Fold, plan: RollingOriginPlan, settings: TrainingSettings, steps: StoredSteps
) -> dict[str, Ints]:
    """Candidate's key → the row of every window of the month at which it submits."""
    found = {}
    decisions = inputs_at(of_month.test)
    for method in plan.methods:
        for seed in plan.seeds:
            label = plan.label(method, seed)
            part = train_link_size(
                method, of_month.train, of_month.tune, replace(settings, seed=seed), steps.under(label)
            )
            assert part.model is not None
            for cost in plan.costs:
                found[Candidate(label, cost).key] = submitted_rows(part.model.submits(decisions, cost), of_month.test)
    return found


def outside_share(part: LinkSizeModel, data: HandOvers) -> float:
    """Share of decisions with a choice that lie outside a model's training data.

    Raises:
        ConfigurationError: The data have no repeats, and the model needs them.
    """
    of_choices = data[data.remaining_s > 0]
    if part.ranges is None or not len(of_choices):
        return 0.0
    values = inputs_at(of_choices).columns(part.ranges.names)
    found = np.array([part.ranges.outside(row) is not None for row in values])
    if part.repeats is not None:
        if of_choices.repeats is None:
            raise ConfigurationError(
                "the data do not have the users' shares of repeats, as an older version made them; make them again"
            )
        found |= np.array([part.repeats.outside(row) is not None for row in of_choices.repeats])
    return float(found.mean())


def trials_from(
    data: HandOvers, chosen: Mapping[str, Ints], played: Mapping[int, WindowTrial] | None
) -> list[WindowTrial]:
    """A trial for each window of the data, with the choices in it.

    Args:
        data: Decisions about links of one size.
        chosen: Candidate's key → the row of every window at which it submits.
        played: Submission of the present link → the window as other policies played it; windows that they did not play
            are left out. None to have the given choices only.

    Raises:
        ConfigurationError: A window was played differently from the data.
    """
    edges = data.windows()
    found = []
    for k, (first, last) in enumerate(pairwise(edges.tolist())):
        times_s = {key: int(data.time_s[rows[k]]) for key, rows in chosen.items()}
        if played is None:
            trial = WindowTrial(_episode(data, k, first, last), {}, {})
        elif int(data.window_s[first]) in played:
            trial = played[int(data.window_s[first])]
        else:
            continue
        decisions_s = trial.episode.decisions_s
        positions = {key: int(np.searchsorted(decisions_s, time_s)) for key, time_s in times_s.items()}
        if any(decisions_s[min(position, len(decisions_s) - 1)] != times_s[key] for key, position in positions.items()):
            raise ConfigurationError(
                f"window {trial.episode.window} was played differently from the data: give the trace, machine, "
                "discipline and step that the data were made with"
            )
        found.append(replace(trial, chosen=trial.chosen | positions))
    return found


def _episode(data: HandOvers, window: int, first: int, last: int) -> Episode:
    """A window of the data as an episode."""
    started_s = int(data.window_s[first] + data.wait_s[first])
    limit_s = int(data.link_limit_s[first])
    return Episode(
        window,
        LinkSize(int(data.link_nodes[first]), limit_s),
        int(data.window_s[first]),
        started_s,
        started_s + limit_s,
        data.time_s[first:last],
        data.outcome_s[first:last],
    )
