"""The wait model: a range for a job's wait, from accounting alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, ModelFileError, quantity
from mirage.predict.conformal import Scores, weights_of_alike
from mirage.predict.model_file import ModelCard, TrainedOn, read_model_file, write_model_file
from mirage.predict.waits.boosted_waits import BoostedWaits, fit_boosted_waits
from mirage.predict.waits.rolling_forecast import LEVELS, RollingForecast, RollingSettings, rolling_forecast
from mirage.predict.waits.wait_features import FEATURES, LABELS, Names, names_of, rows_of_sample, waits_at_submission
from mirage.predict.waits.wait_sample import WaitSample
from mirage.predict.waits.wait_score import interval_figures, point_figures
from mirage.trace.table import JobTable

KIND = "waits"
SCHEMA = 1
FEWEST_JOBS = 500
"""A trace of fewer jobs is refused: none could be held out."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WaitModel:
    """Quantiles of queue waits, from features of the job and of its queue in accounting.

    Attributes:
        card: What it was trained on, and its accuracy on later jobs.
        boosted: The trees.
        scores: Shape (c + 1, k), quantiles of (log10 wait − mean) ÷ spread by size class, those of all at the end.
    """

    card: ModelCard
    boosted: BoostedWaits
    scores: Floats

    @property
    def names(self) -> Names:
        """Partitions, QOS, accounts and users that the model knows, in the order of their numbers."""
        return {name: tuple(self.card.settings["names"][name]) for name in LABELS}

    def sample(self, table: JobTable) -> WaitSample:
        """Every job of a table as it was submitted, with the features that the model needs."""
        return waits_at_submission(table, self.names)

    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: ArrayLike) -> Floats:
        """Quantiles of the wait of a job that is not submitted yet.

        Args:
            accounts: sacct's rows of the last days.
            job: The job, one row: its request, with the present as its submission.
            levels: Shape (k,), from 0.025 to 0.975.

        Returns:
            Shape (k,), in seconds.
        """
        known = accounts[accounts.submit_s <= job.submit_s[0]].followed_by(job)
        sample = self.sample(known)
        row = np.flatnonzero(rows_of_sample(known) == len(known) - 1)
        waits_s: Floats = self.quantiles_s(sample.inputs[row], levels, sample.size_class[row])[0]
        return waits_s

    def quantiles_s(self, features: NDArray[np.float32], levels: ArrayLike, size_class: Ints | None = None) -> Floats:
        """Quantiles of the waits.

        Args:
            features: Shape (n, f), in the order of ``card.features``; NaN where unknown.
            levels: Shape (k,), from 0.025 to 0.975.
            size_class: Shape (n,), as `sample` gives it; by default the quantiles of all classes together.

        Returns:
            Shape (n, k), in seconds.

        Raises:
            ConfigurationError: A level is out of that range, or the number of features is wrong.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.min() < LEVELS[0] or wanted.max() > LEVELS[-1]:
            raise ConfigurationError(
                f"levels {wanted} of quantiles; this model has those from {LEVELS[0]} to {LEVELS[-1]}"
            )
        if features.ndim != 2 or features.shape[1] != len(self.card.features):
            raise ConfigurationError(
                f"features of shape {features.shape}; this model needs {len(self.card.features)}, see its card"
            )
        last = len(self.scores) - 1
        which = np.full(len(features), last) if size_class is None else np.minimum(size_class, last)
        mean, spread = self.boosted.mean(features), self.boosted.spread(features)
        of_class = np.stack([np.interp(wanted, LEVELS, row) for row in self.scores])
        return np.asarray(10.0 ** (mean[:, None] + spread[:, None] * of_class[which]), dtype=np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, completely or not at all.

        Raises:
            OSError: The file cannot be written.
        """
        write_model_file(path, self.card, {"scores": self.scores, **self.boosted.as_arrays()})


def load_wait_model(path: str | os.PathLike[str]) -> WaitModel:
    """Returns the wait model in a file.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        ModelFileError: It is absent, damaged, foreign, of another kind or newer.
    """
    content = read_model_file(path, KIND, SCHEMA)
    try:
        model = WaitModel(content.card, BoostedWaits.from_arrays(content.arrays), content.arrays["scores"])
        whole = model.scores.shape == (len(model.names["partition"]) * 3 + 4, len(LEVELS))
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{path} lacks {error} of a wait model; train it again") from error
    if not whole or content.card.features != FEATURES:
        raise ModelFileError(f"{path} needs other features than this version computes; train it again")
    return model


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of the last jobs of a trace, each from what was known at its submission.

    Attributes:
        sample: All jobs.
        forecast: The predictions of the last ones.
        judged: Shape (m,), which of these have started and can be judged.
    """

    sample: WaitSample
    forecast: RollingForecast
    judged: NDArray[np.bool_]

    def figures(self) -> dict[str, float]:
        """Returns accuracy figures of the predictions; only the number of jobs if it is 0."""
        log_wait = self.log_wait
        if not len(log_wait):
            return {"jobs": 0.0}
        median = self.forecast.quantiles[self.judged][:, np.searchsorted(self.forecast.levels, 0.5)]
        found = point_figures(log_wait, median)
        found |= interval_figures(log_wait, self.forecast.quantiles[self.judged], self.forecast.levels)
        return {"jobs": float(len(log_wait)), **{name: value for name, value in found.items() if not np.isnan(value)}}

    @property
    def log_wait(self) -> Floats:
        """Returns log10 of the judged waits, shape (j,)."""
        return np.log10(np.maximum(self.sample.waited_s[self.forecast.first :][self.judged], 1.0))


def hold_out(sample: WaitSample, share: float, settings: RollingSettings, progress: Progress) -> HeldOut:
    """Predict the last jobs of a sample in the order of time.

    Args:
        sample: Waits in the order of their requests.
        share: Share of the sample's time span that is held out.
        settings: How often trees are grown, and how.
        progress: Called with the number of predicted jobs and of all jobs.

    Raises:
        ConfigurationError: The sample spans no time.
    """
    first_s, last_s = int(sample.request_s[0]), int(sample.request_s[-1])
    begin_s = int(last_s - share * (last_s - first_s))
    if begin_s == first_s:
        raise ConfigurationError(
            f"all {len(sample):,} jobs were submitted within {last_s - first_s + 1} s, so none can be predicted from "
            "those before it; give a trace of some days"
        )
    forecast = rolling_forecast(sample, begin_s, settings, progress=progress)
    return HeldOut(sample, forecast, sample.started[forecast.first :])


def train_wait_model(
    table: JobTable,
    trace: str,
    *,
    share: float = 0.2,
    settings: RollingSettings | None = None,
    progress: Progress = lambda done, total: None,
) -> WaitModel:
    """Train a wait model on all jobs of a table; its card holds figures on held-out last jobs.

    Args:
        table: Jobs in any order.
        trace: Its name.
        share: Share of the trace's time span that is held out for the figures.
        settings: How often trees are grown again in the hold-out, and how.
        progress: Called with the number of predicted and of all held-out jobs.

    Raises:
        ConfigurationError: Fewer than 500 jobs of the table have a submission and a start, all were submitted at
            once, or the extra ``predict`` is not installed.
    """
    settings = settings or RollingSettings()
    names = names_of(table)
    sample = waits_at_submission(table, names)
    if int(sample.started.sum()) < FEWEST_JOBS:
        raise ConfigurationError(
            f"{trace}: {quantity(int(sample.started.sum()), 'job')} with a submission and a start; a wait model needs "
            f"{FEWEST_JOBS}"
        )
    held_out = hold_out(sample, share, settings, progress)
    now_s = int(sample.request_s[-1]) + 1
    log_wait, is_bound = sample.known_at(now_s)
    boosted, left_out = fit_boosted_waits(sample.inputs, log_wait, is_bound, sample.alike, settings.boosting)
    calibration = settings.calibration
    scores = Scores(
        sample.request_s[left_out.rows],
        left_out.score,
        is_bound[left_out.rows],
        sample.size_class[left_out.rows],
        weights_of_alike(sample.alike[left_out.rows], left_out.stands_for, calibration.together),
    )
    adjusted = held_out.forecast.adjusted
    classes = len(names["partition"]) * 3 + 3
    card = ModelCard(
        kind=KIND,
        schema=SCHEMA,
        features=sample.features,
        trained_on=TrainedOn(trace, int(sample.request_s[0]), int(sample.request_s[-1]), len(sample)),
        figures=held_out.figures(),
        settings={"names": {name: list(known) for name, known in names.items()}, "held_out_share": share},
    )
    by_class = [scores.quantiles(each, now_s, adjusted, calibration) for each in range(classes)]
    everything = scores.quantiles(-1, now_s, adjusted, replace(calibration, others=np.inf))
    return WaitModel(card, boosted, np.stack([*by_class, everything]))
