"""Ratios of step times on two GPU types, learned from measurements and other models.

The logarithm of the ratio at a row is linear in features of the row: several GPUs, several servers, their numbers, the
batch, and the share of the exchange of gradients in the step. The coefficients of a model are unknown before anything
is measured. Their prior distribution is normal: its mean is that of the other models between the same two types, and
its covariance is that of the deviations from these means. Measurements update it (Bayesian linear regression), and also
give the uncertainty of each prediction, without any step time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats
from mirage.schedule.speeds.profile_files import StepTimes

FEATURES = 8

_RIDGE = 0.3
"""Weight that draws the coefficients of a whole table towards 0."""

_WIDER = 4.0
"""Factor of the covariance, as few other models say little about a new one.

Between 4 and 8 the published tables are predicted best; this is so whichever model is left out. From 1 to 64 the share
of good predictions changes by 2 % at most.
"""

_LEAST_RESIDUAL = 0.03
"""Standard deviation of a measurement from the regression, at least."""

Pair = tuple[str, str, str]
"""A model, the type of the predicted table, and that of the table that is scaled."""


@dataclass(frozen=True, slots=True)
class RatioPrior:
    """The distribution of the coefficients before a measurement.

    Attributes:
        mean: Shape (``FEATURES``,).
        covariance: Shape (``FEATURES``, ``FEATURES``).
        residual: Variance of a measurement from the regression.
    """

    mean: Floats
    covariance: Floats
    residual: float


@dataclass(frozen=True, slots=True)
class ScaledTable:
    """A table of another GPU type at the rows of a predicted one.

    Attributes:
        parts: Its step times in three parts, shape (rows, 3), as of ``source_parts``.
        features: Of the rows, shape (rows, ``FEATURES``).
        prior: Of the ratio of the predicted step times to these.
    """

    parts: Floats
    features: Floats
    prior: RatioPrior

    @classmethod
    def of(cls, table: StepTimes, parts: Floats, prior: RatioPrior) -> ScaledTable:
        """The table; step times of the predicted one are not used."""
        return cls(parts, row_features(table, parts), prior)

    def predicted(self, measured: Sequence[int], step_s: Floats) -> tuple[Floats, Floats]:
        """Logarithms of predicted step times of all rows, and their variances; shapes (rows,).

        Args:
            measured: The measured rows.
            step_s: Their step times.
        """
        rows, prior = list(measured), self.prior
        known = np.log(self.parts.sum(axis=1))
        gain, variances = self._update(rows)
        surprise = np.log(step_s) - known[rows] - self.features[rows] @ prior.mean
        return known + self.features @ prior.mean + gain @ surprise, variances

    def variances(self, measured: Sequence[int]) -> Floats:
        """Variances of the predictions if these rows are measured, shape (rows,)."""
        return self._update(list(measured))[1]

    def _update(self, rows: list[int]) -> tuple[Floats, Floats]:
        prior, features = self.prior, self.features
        spread = features @ prior.covariance
        at_rows = spread @ features[rows].T
        between = at_rows[rows] + prior.residual * np.eye(len(rows))
        gain: Floats = np.linalg.solve(between, at_rows.T).T.astype(np.float64)
        before = np.einsum("ij,ij->i", spread, features)
        variances: Floats = before - np.einsum("ij,ij->i", gain, at_rows) + prior.residual
        return gain, variances


def row_features(table: StepTimes, parts: Floats) -> Floats:
    """Features of the rows of a table, shape (rows, ``FEATURES``).

    Its step times are not used.

    Args:
        table: The table.
        parts: Those of another type at its rows, shape (rows, 3), as of ``source_parts``.
    """
    several, across = table.gpus > 1, table.servers > 1
    low, high = np.log(table.local_batch.min()), np.log(table.local_batch.max())
    batch = (np.log(table.local_batch) - low) / max(high - low, 1e-9) - 0.5
    exchange = parts[:, 1:].sum(axis=1) / parts.sum(axis=1)
    columns = [
        np.ones(len(batch)), several, across, np.log(table.gpus), np.log(table.servers), batch, batch * across,
        exchange,
    ]  # fmt: skip
    features: Floats = np.stack(columns, axis=1).astype(np.float64)
    return features


class KnownRatios:
    """The coefficients of whole tables, from which priors for other models are made.

    Args:
        tables: By model and GPU type.
        parts: Those of each pair, as of ``source_parts``.
    """

    def __init__(self, tables: Mapping[tuple[str, str], StepTimes], parts: Mapping[Pair, Floats]) -> None:
        self._coefficients: dict[Pair, Floats] = {}
        self._residuals: dict[Pair, float] = {}
        for (model, name, other), of_other in parts.items():
            table = tables[model, name]
            features, total = row_features(table, of_other), of_other.sum(axis=1)
            ratios = np.concatenate([np.log(table.step_s / total), np.zeros(FEATURES)])
            found = np.linalg.lstsq(np.vstack([features, _RIDGE * np.eye(FEATURES)]), ratios, rcond=None)[0]
            self._coefficients[model, name, other] = found
            self._residuals[model, name, other] = float(np.mean((ratios[:-FEATURES] - features @ found) ** 2))

    def prior(self, model: str, name: str, other: str) -> RatioPrior:
        """The prior for a model, from all other models; a wide one if these are fewer than two.

        Args:
            model: The model; its own tables are not used.
            name: The type of the predicted table.
            other: The type of the table that is scaled.
        """
        of_pairs: dict[tuple[str, str], list[Floats]] = {}
        residuals = []
        for pair, found in self._coefficients.items():
            if pair[0] != model:
                of_pairs.setdefault(pair[1:], []).append(found)
                residuals.append(self._residuals[pair])
        own = of_pairs.get((name, other), [])
        if len(own) < 2:
            return RatioPrior(np.zeros(FEATURES), np.diag([1.0, *[0.1] * (FEATURES - 1)]), 0.01)
        deviations = [
            (np.array(each) - np.mean(each, axis=0)) * np.sqrt((len(each) + 1) / (len(each) - 1))
            for each in of_pairs.values()
            if len(each) > 1
        ]
        apart = np.concatenate(deviations)
        covariance = _WIDER * apart.T @ apart / len(apart)
        residual = max(float(np.mean(residuals)), _LEAST_RESIDUAL**2)
        return RatioPrior(np.mean(own, axis=0), covariance, residual)
