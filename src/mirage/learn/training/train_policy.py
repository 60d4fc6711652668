"""Training of a policy: a model for every link size, by one method or by the chosen ones.

trained = train_policy({1: "correction", 8: "correction"}, data, Slices(until_s, tune_until_s), card)
trained.save("model")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.folds import check_months, month_begin_s, shifted, split, tune_since_s
from mirage.learn.training.method_choice import MethodChoice, choose
from mirage.learn.training.method_trials import RollingOriginPlan, trials_of, try_methods
from mirage.learn.training.methods import method_named
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.trained_policy import WHAT_IF, LinkSizeModel, TrainedPolicy, train_link_size
from mirage.policy.cost import Cost
from mirage.predict.model_file import TrainedOn
from mirage.provision.evaluation.candidate import ORACLE
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import Evaluation, assess, evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.policy_score import ALL, score
from mirage.provision.link_size import LinkSize
from mirage.study.executors.executor import Executor
from mirage.study.executors.local_processes import LocalProcesses
from mirage.study.executors.work_codec import sent_to_jobs


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
class CardDetails:
    """Values for a card, besides the results of training.

    Attributes:
        trace: Name of the trace, or of a data set of an unknown trace.
        futures: Futures of the forecasts in the data; 0 without forecasts.
    """

    trace: str
    futures: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RollingOriginResult:
    """The result of a rolling origin.

    Attributes:
        evaluation: All methods and ``what-if`` in the windows of the test months.
        choices: Choices by link size.
    """

    evaluation: Evaluation
    choices: tuple[MethodChoice, ...]


@dataclass(frozen=True, slots=True)
class Training:
    """One model to train.

    Attributes:
        link_nodes: Size of the links it decides for.
        method: Name of the method.
        seed: Seed of all randomness.
        until_s: End of training.
        tune_until_s: End of tuning.
        location: Location of its steps.
    """

    link_nodes: int
    method: str
    seed: int
    until_s: int
    tune_until_s: int
    location: str


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """The inputs of a process that trains.

    Attributes:
        data: Decisions for all link sizes.
        settings: Bounds of the training; each training has its own seed.
        folder: Where steps are stored.
    """

    data: HandOvers
    settings: TrainingSettings
    folder: Path


def train_ahead(
    trainings: Sequence[Training], data: HandOvers, settings: TrainingSettings, steps: StoredSteps, executor: Executor
) -> None:
    """Trains ahead, and stores the steps in their folder.

    With one local process, or without a folder, there is no gain, and nothing is done.

    Raises:
        ConfigurationError: A slice is empty, the data lack what a method needs, or a package is missing.
        SlurmError: A job failed; finished steps stay.
    """
    pieces = together(trainings)
    if steps.folder is None or (isinstance(executor, LocalProcesses) and min(executor.workers, len(pieces)) < 2):
        return
    for locations in executor(_trainer, TrainingInputs(data, settings, steps.folder), pieces):
        for location in locations:
            steps.report(location)


def together(trainings: Sequence[Training]) -> list[tuple[Training, ...]]:
    """Groups trainings that share the pre-training of a network.

    The later ones of a group find it done.
    """
    found: dict[tuple[object, ...], list[Training]] = {}
    for one in trainings:
        of_same_data = (one.link_nodes, one.seed, one.until_s, one.tune_until_s)
        found.setdefault((method_named(one.method).body or one.location, *of_same_data), []).append(one)
    return [tuple(same) for same in found.values()]


@sent_to_jobs
def _trainer(inputs: TrainingInputs) -> Callable[[tuple[Training, ...]], list[str]]:
    """Returns the function that does trainings in turn and returns their locations."""

    def train(trainings: tuple[Training, ...]) -> list[str]:
        for one in trainings:
            data, tune = split(inputs.data[inputs.data.link_nodes == one.link_nodes], one.until_s, one.tune_until_s)
            steps = StoredSteps(inputs.folder).under(one.location)
            train_link_size(one.method, data, tune, replace(inputs.settings, seed=one.seed), steps)
        return [one.location for one in trainings]

    return train


def train_policy(
    methods: Mapping[int, str],
    data: HandOvers,
    slices: Slices,
    card: CardDetails,
    settings: TrainingSettings | None = None,
    steps: StoredSteps | None = None,
    chosen: Mapping[str, Any] | None = None,
    *,
    tuned: bool = True,
    executor: Executor | None = None,
) -> TrainedPolicy:
    """Trains a policy with a model for every link size.

    Args:
        methods: Nodes of a link → method; ``what-if`` for none.
        data: Decisions about links of these sizes.
        slices: Training and tuning data.
        card: Values for the card.
        settings: Seed and bounds.
        steps: Where steps are stored.
        chosen: How the methods were chosen, for the card.
        tuned: Whether the card has results on the tuning slice, of methods that do not learn from it; a published
            network takes minutes.
        executor: Trains, if steps are stored in a folder; None for this process.

    Raises:
        UnknownName: A method does not exist.
        ConfigurationError: A slice is empty, the data lack what a method needs, or a package is missing.
    """
    settings, steps = settings or TrainingSettings(), steps or StoredSteps()
    if executor is not None:
        spans = settings.seed, slices.until_s, slices.tune_until_s
        named = [(nodes, method) for nodes, method in sorted(methods.items()) if method != WHAT_IF]
        trainings = [Training(nodes, method, *spans, f"{nodes}/{method}") for nodes, method in named]
        train_ahead(trainings, data, settings, steps, executor)
    parts, figures, rows, first_s = {}, dict[str, float](), 0, slices.until_s
    for nodes, method in sorted(methods.items()):
        if method == WHAT_IF:
            parts[nodes] = LinkSizeModel(WHAT_IF)
            continue
        train, tune = split(data[data.link_nodes == nodes], slices.until_s, slices.tune_until_s)
        parts[nodes] = train_link_size(method, train, tune, settings, steps.under(f"{nodes}/{method}"))
        if tuned and method_named(method).tunes:
            figures |= {f"{name}_{nodes}": value for name, value in tuned_figures(parts[nodes], tune).items()}
        rows, first_s = rows + len(train) + len(tune), min(first_s, int(train.window_s.min()))
    on = TrainedOn(card.trace, first_s, slices.tune_until_s, rows)
    return TrainedPolicy(parts, on, figures, card.futures, chosen or {})


def tuned_figures(part: LinkSizeModel, tune: HandOvers) -> dict[str, float]:
    """Results of a model on the tuning slice, at equal costs.

    The model was tuned there, so later results are worse.
    """
    row = score(trials_of(part, "model", tune, (Cost(),)), ["model"], [Cost()])[0]
    assert row.load == ALL
    found = {"interruption_h": row.interruption_h, "overlap_h": row.overlap_h, "windows": float(row.windows)}
    if row.gap_closed is not None:
        found["gap_closed"] = row.gap_closed
    if row.gap_closed_95 is not None:
        found["gap_low"], found["gap_high"] = row.gap_closed_95
    return found


def try_and_choose(
    data: HandOvers,
    plan: RollingOriginPlan,
    played: Mapping[int, Sequence[WindowTrial]],
    settings: TrainingSettings | None = None,
    steps: StoredSteps | None = None,
    executor: Executor | None = None,
) -> RollingOriginResult:
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
    settings, steps = settings or TrainingSettings(), steps or StoredSteps()
    sizes = np.unique(data.link_nodes).astype(int).tolist()
    if executor is not None:
        train_ahead([one for nodes in sizes for one in _trainings(nodes, data, plan)], data, settings, steps, executor)
    trials = {}
    for nodes in sizes:
        windows = {trial.episode.submitted_s: trial for trial in played.get(nodes, ())}
        of_size = data[data.link_nodes == nodes]
        trials[nodes] = try_methods(of_size, plan, settings, steps.under(_origin(nodes)), windows)
    shown = [REACTIVE, WHAT_IF, *plan.labels, ORACLE]
    evaluation = assess(trials, shown, plan.costs, against=WHAT_IF)
    choices = tuple(choose(nodes, evaluation.differences, plan.methods) for nodes in trials)
    return RollingOriginResult(evaluation, choices)


def _trainings(nodes: int, data: HandOvers, plan: RollingOriginPlan) -> Iterator[Training]:
    """The trainings of a rolling origin for one link size."""
    of_size = data[data.link_nodes == nodes]
    for month, method, seed in product(plan.months, plan.methods, plan.seeds):
        begin_s = month_begin_s(month)
        location = f"{_origin(nodes)}/{month}/{plan.label(method, seed)}"
        yield Training(nodes, method, seed, tune_since_s(of_size, begin_s), begin_s, location)


def _origin(nodes: int) -> str:
    """The location of the steps of a link size's rolling origin."""
    return f"rolling-origin/{nodes}"


def play_what_if(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    links: Sequence[LinkSize],
    months: Sequence[str],
    costs: Sequence[Cost],
    *,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    resume_dir: Path | None = None,
) -> dict[int, tuple[WindowTrial, ...]]:
    """Plays ``what-if`` in the windows from the first to the last of some months.

    Args:
        scenario: The cluster, its queue and the trace of the data.
        protocol: The protocol of the data, with all its windows.
        links: Link sizes.
        months: Test months, in any order.
        costs: Every cost is played.
        seed: The seed of the data and of the futures.
        executor: Plays the windows; None for this process.
        progress: Called as windows are finished.
        resume_dir: Where finished windows are stored.

    Returns:
        Nodes of a link → windows.

    Raises:
        ConfigurationError: No window lies in these months, or the data were made of another trace.
    """
    begin_s, end_s = month_begin_s(min(months)), month_begin_s(shifted(max(months), 1))
    inside = [window for window in range(protocol.windows) if begin_s <= protocol.submits_s(window) < end_s]
    if not inside:
        raise ConfigurationError(f"no window of the data lies in {', '.join(months)}")
    first_s = protocol.begin_s + inside[0] * protocol.every_s
    within = replace(protocol, begin_s=first_s, windows=len(inside))
    found = evaluate(
        scenario,
        within,
        links,
        [WHAT_IF],
        costs,
        seed=seed,
        executor=executor,
        progress=progress,
        resume_dir=resume_dir,
    )
    return found.trials
