"""Models of a comparison, trained before each month: one file a method, month and seed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
from mirage.learn.training.folds import month_begin_s, tune_since_s
from mirage.learn.training.methods import METHODS, SPLIT_BY, versions
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy
from mirage.study.executors.executor import Executor
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.play_trials import Progress
from mirage.study.trial import code_key, key_of


@dataclass(frozen=True, slots=True, order=True)
class ModelKey:
    """The key of a model: method, test month, and seed."""

    method: str
    month: str
    seed: int


@dataclass(frozen=True, slots=True)
class ModelGroup:
    """All models of one month and seed: networks of one body share its pre-training.

    Attributes:
        models: The methods to train, and their files.
        steps: Folder of the steps that are stored until all are done.
    """

    month: str
    seed: int
    models: tuple[tuple[str, Path], ...]
    steps: Path


@dataclass(frozen=True, slots=True, eq=False)
class ModelRecipe:
    """The inputs of a process that trains models.

    Attributes:
        data: Decisions for all link sizes.
        data_key: Digest of the data set's manifest.
        card: Values for the cards.
        settings: Bounds of the training; the seed is the group's.
        epochs: Epochs of single methods, where they differ from the settings.
    """

    data: HandOvers
    data_key: str
    card: CardDetails
    settings: TrainingSettings
    epochs: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Link sizes in the data."""
        return tuple(sorted({int(nodes) for nodes in self.data.link_nodes}))

    def settings_of(self, method: str, seed: int) -> TrainingSettings:
        """The training settings of a method."""
        return replace(self.settings, seed=seed, epochs=self.epochs.get(method, self.settings.epochs))

    def key(self, month: str, seed: int, methods: tuple[str, ...]) -> str:
        """Digest of everything that determines models: data, settings, and methods' code."""
        entries = [entry for method in methods for entry in (METHODS[method].trainer, METHODS[method].model)]
        code = code_key({*SPLIT_BY, *(entry.partition(":")[0] for entry in entries)})
        settings = [self.settings_of(method, seed) for method in methods]
        return key_of(month, methods, self.data_key, self.sizes, self.card, settings, code, versions(methods))


def train_models(
    recipe: ModelRecipe, plan: ComparisonPlan, folder: Path, executor: Executor, progress: Progress | None = None
) -> dict[ModelKey, Path]:
    """Trains the missing models; returns the file of every model.

    Args:
        recipe: The training data and settings.
        plan: Methods, months and seeds.
        folder: Holds the files, and the steps of an unfinished training.
        executor: Trains the models.
        progress: Called as models are finished.

    Raises:
        ConfigurationError: There is nothing to train on before a month, a package is missing, or a file cannot be
            written.
    """
    found, groups = {}, []
    for month, seed in product(plan.months, plan.seeds):
        files = {}
        for method in plan.methods:
            name = f"{month}-{method}-seed{seed}-{recipe.key(month, seed, (method,))}.model"
            files[method] = found[ModelKey(method, month, seed)] = folder / name
        missing = tuple((method, path) for method, path in files.items() if not path.exists())
        if missing:
            steps = folder / f"{month}-seed{seed}-{recipe.key(month, seed, tuple(METHODS))}.steps"
            groups.append(ModelGroup(month, seed, missing, steps))
    done = len(found) - sum(len(group.models) for group in groups)
    if progress is not None:
        progress(done, len(found))
    for trained in executor(_trainer, recipe, groups):
        done += trained
        if progress is not None:
            progress(done, len(found))
    return found


def slices_before(data: HandOvers, month: str) -> Slices:
    """The training data of a month: windows that were over before it.

    ``tune_since_s`` sets the slice for tuning.
    """
    begin_s = month_begin_s(month)
    return Slices(tune_since_s(data, begin_s), begin_s)


@sent_to_jobs
def _trainer(recipe: ModelRecipe) -> Callable[[ModelGroup], int]:
    """Returns the function that trains a group's models and returns their number."""

    def train(group: ModelGroup) -> int:
        for method, path in group.models:
            if not path.exists():  # it exists where a job was killed and restarted
                _train(recipe, group, method, path)
        shutil.rmtree(group.steps, ignore_errors=True)
        return len(group.models)

    return train


def _train(recipe: ModelRecipe, group: ModelGroup, method: str, path: Path) -> None:
    methods = dict.fromkeys(recipe.sizes, method)
    settings = recipe.settings_of(method, group.seed)
    chosen = {"by": "comparison", "month": group.month, "seed": group.seed}
    slices = slices_before(recipe.data, group.month)
    steps = StoredSteps(group.steps)
    trained = train_policy(methods, recipe.data, slices, recipe.card, settings, steps, chosen, tuned=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        trained.save(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
