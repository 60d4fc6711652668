"""Training of a policy: a model for every link size, by one method or by the chosen ones.

trained = train_policy({1: "correction", 8: "correction"}, data, Slices(until_s, tune_until_s), said)
trained.save("model")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from mirage.executors.executor import Executor
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model import TrainingSettings
from mirage.learn.training.ahead import Training, train_ahead
from mirage.learn.training.choice import Choice, choose
from mirage.learn.training.folds import check_months, month_begin_s, split, tune_since_s
from mirage.learn.training.rolling_origin import Plan, trials_of, try_methods
from mirage.learn.training.steps import KeptSteps
from mirage.learn.training.trained import WHAT_IF, Part, Trained, train_part
from mirage.policy.cost import Cost
from mirage.predict.model_file import TrainedOn
from mirage.provision.evaluation.candidate import ORACLE
from mirage.provision.evaluation.evaluate import Evaluation, assess
from mirage.provision.evaluation.score import ALL, REACTIVE, score
from mirage.provision.evaluation.study import Trial


@dataclass(frozen=True, slots=True)
class Slices:
    """The training data: windows that are over by a time, and later ones to tune on.

    Attributes:
        until_s: End of training.
        tune_until_s: End of tuning; nothing later is used.
    """

    until_s: int
    tune_until_s: int


@dataclass(frozen=True, slots=True)
class Said:
    """Values for a card, besides the results of training.

    Attributes:
        trace: Name of the trace.
        futures: Futures of the forecasts in the data; 0 without forecasts.
    """

    trace: str
    futures: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """The result of a rolling origin.

    Attributes:
        evaluation: All methods and ``what-if`` in the windows of the test months.
        choices: Choices by link size.
    """

    evaluation: Evaluation
    choices: tuple[Choice, ...]


def train_policy(
    methods: Mapping[int, str],
    data: HandOvers,
    slices: Slices,
    said: Said,
    settings: TrainingSettings | None = None,
    steps: KeptSteps | None = None,
    chosen: Mapping[str, Any] | None = None,
    *,
    tuned: bool = True,
    executor: Executor | None = None,
) -> Trained:
    """Trains a policy with a model for every link size.

    Args:
        methods: Nodes of a link → method; ``what-if`` for none.
        data: Decisions about links of these sizes.
        slices: Training and tuning data.
        said: Values for the card.
        settings: Seed and bounds.
        steps: Where steps are stored.
        chosen: How the methods were chosen, for the card.
        tuned: Whether the card has results on the tuning slice; a published network takes minutes.
        executor: Trains, if steps are stored in a folder; None for this process.

    Raises:
        UnknownName: A method does not exist.
        ConfigurationError: A slice is empty, the data lack what a method needs, or a package is missing.
    """
    settings, steps = settings or TrainingSettings(), steps or KeptSteps()
    if executor is not None:
        spans = settings.seed, slices.until_s, slices.tune_until_s
        named = [(nodes, method) for nodes, method in sorted(methods.items()) if method != WHAT_IF]
        trainings = [Training(nodes, method, *spans, f"{nodes}/{method}") for nodes, method in named]
        train_ahead(trainings, data, settings, steps, executor)
    parts, figures, rows, first_s = {}, dict[str, float](), 0, slices.until_s
    for nodes, method in sorted(methods.items()):
        if method == WHAT_IF:
            parts[nodes] = Part(WHAT_IF)
            continue
        train, tune = split(data[data.link_nodes == nodes], slices.until_s, slices.tune_until_s)
        parts[nodes] = train_part(method, train, tune, settings, steps.under(f"{nodes}/{method}"))
        if tuned:
            figures |= {f"{name}_{nodes}": value for name, value in tuned_figures(parts[nodes], tune).items()}
        rows, first_s = rows + len(train) + len(tune), min(first_s, int(train.window_s.min()))
    on = TrainedOn(said.trace, first_s, slices.tune_until_s, rows)
    return Trained(parts, on, figures, said.futures, chosen or {})


def tuned_figures(part: Part, tune: HandOvers) -> dict[str, float]:
    """Results of a model on the tuning slice, at equal costs.

    The model was tuned there, so later results are worse.
    """
    row = score(trials_of(part, "model", tune, (Cost(),)), ["model"], [Cost()])[0]
    assert row.load == ALL
    found = {"interruption_h": row.interruption_h, "overlap_h": row.overlap_h, "windows": float(row.windows)}
    return found if row.gap_closed is None else found | {"gap_closed": row.gap_closed}


def try_and_choose(
    data: HandOvers,
    plan: Plan,
    played: Mapping[int, Sequence[Trial]],
    settings: TrainingSettings | None = None,
    steps: KeptSteps | None = None,
    executor: Executor | None = None,
) -> Tried:
    """Tries methods by rolling origin, and chooses one for every link size.

    Args:
        data: Decisions.
        plan: Methods, months, costs and seeds.
        played: Nodes of a link → windows of the test months as ``what-if`` played them, with every cost of the plan.
        settings: Bounds of the training.
        steps: Where steps are stored.
        executor: Trains, if steps are stored in a folder; None for this process.

    Raises:
        ConfigurationError: There are too few months, or one has no windows or nothing to train on before it.
    """
    check_months(plan.months)
    settings, steps = settings or TrainingSettings(), steps or KeptSteps()
    sizes = np.unique(data.link_nodes).astype(int).tolist()
    if executor is not None:
        train_ahead([one for nodes in sizes for one in _tries(nodes, data, plan)], data, settings, steps, executor)
    tried = {}
    for nodes in sizes:
        windows = {trial.episode.submitted_s: trial for trial in played.get(nodes, ())}
        of_size = data[data.link_nodes == nodes]
        tried[nodes] = try_methods(of_size, plan, settings, steps.under(_origin(nodes)), windows)
    shown = [REACTIVE, WHAT_IF, *plan.labels, ORACLE]
    evaluation = assess(tried, shown, plan.costs, against=WHAT_IF)
    choices = tuple(choose(nodes, evaluation.differences, plan.methods) for nodes in tried)
    return Tried(evaluation, choices)


def _tries(nodes: int, data: HandOvers, plan: Plan) -> Iterator[Training]:
    """The trainings of a rolling origin for one link size."""
    of_size = data[data.link_nodes == nodes]
    for month, method, seed in product(plan.months, plan.methods, plan.seeds):
        begin_s = month_begin_s(month)
        place = f"{_origin(nodes)}/{month}/{plan.label(method, seed)}"
        yield Training(nodes, method, seed, tune_since_s(of_size, begin_s), begin_s, place)


def _origin(nodes: int) -> str:
    """The location of the steps of a link size's rolling origin."""
    return f"rolling-origin/{nodes}"
