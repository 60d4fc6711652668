"""Models of a comparison: one file for each method, month and seed, trained on what was known before the month."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from mirage import __version__
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model import TrainingSettings
from mirage.learn.training.comparison.plan import Plan
from mirage.learn.training.folds import month_begin_s, tune_since_s
from mirage.learn.training.methods import METHODS
from mirage.learn.training.steps import KeptSteps
from mirage.learn.training.train import Said, Slices, train_policy
from mirage.source_digest import source_digest

Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""


@dataclass(frozen=True, slots=True, order=True)
class Wanted:
    """A model: which method, before which month, with which seed."""

    method: str
    month: str
    seed: int


def train_models(
    data: HandOvers,
    data_key: str,
    plan: Plan,
    said: Said,
    settings: TrainingSettings,
    folder: Path,
    progress: Progress | None = None,
) -> dict[Wanted, Path]:
    """The file of every model; those that are there are not trained again.

    Args:
        data: Decisions of all sizes of links.
        data_key: Digest of what the data were made of.
        plan: Methods, months and seeds.
        said: What the cards say.
        settings: Bounds of the training; the seed is the plan's.
        folder: Where the files lie, and steps of a training that is under way.
        progress: Told of models that are done.

    Raises:
        ConfigurationError: There is nothing to train on before a month, a package is missing, or a file cannot be
            written.
    """
    sizes = tuple(sorted({int(nodes) for nodes in data.link_nodes}))
    found = {}
    every = [Wanted(*one) for one in product(plan.methods, plan.months, plan.seeds)]
    for done, wanted in enumerate(every):
        if progress is not None:
            progress(done, len(every))
        key = _key(wanted, data_key, sizes, said, settings)
        path = folder / f"{wanted.month}-{wanted.method}-seed{wanted.seed}-{key}.model"
        if not path.exists():
            _train(wanted, data, sizes, said, replace(settings, seed=wanted.seed), path)
        found[wanted] = path
    if progress is not None:
        progress(len(every), len(every))
    return found


def slices_before(data: HandOvers, month: str) -> Slices:
    """What a month's models learn from: windows that were over a month before it, and the later ones to tune on."""
    begin_s = month_begin_s(month)
    return Slices(tune_since_s(data, begin_s), begin_s)


def _train(
    wanted: Wanted, data: HandOvers, sizes: tuple[int, ...], said: Said, settings: TrainingSettings, path: Path
) -> None:
    steps = KeptSteps(path.with_suffix(".steps"))
    methods = dict.fromkeys(sizes, wanted.method)
    chosen = {"by": "comparison", "month": wanted.month, "seed": wanted.seed}
    trained = train_policy(methods, data, slices_before(data, wanted.month), said, settings, steps, chosen)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        trained.save(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    shutil.rmtree(path.with_suffix(".steps"), ignore_errors=True)


def _key(wanted: Wanted, data_key: str, sizes: tuple[int, ...], said: Said, settings: TrainingSettings) -> str:
    """Digest of all that determines a model: the data, what was asked for, and the code of its method."""
    method = METHODS[wanted.method]
    code = source_digest({entry.partition(":")[0] for entry in (method.trainer, method.model)})
    told = (wanted, data_key, sizes, said, replace(settings, seed=wanted.seed), code, __version__, np.__version__)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]
