"""Inputs of a network at a decision, on a common scale learnt from training rows.

Counts, nodes and durations span five orders of magnitude. So their logarithm is taken (``sign · log(1 + |x|)``) before
they are scaled to mean 0 and deviation 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import COLUMNS, HISTORY, QUEUE_COLUMNS, Floats32, HandOvers, chain_columns
from mirage.predict.model_file import Arrays

OF_THE_LINK = ("remaining_s", "link_nodes", "link_limit_s", "wait_s")
"""Inputs of every network besides its features."""

LARGEST = 6.0
"""Scaled inputs are clipped at this number of deviations."""


class ScaledInputs(NamedTuple):
    """A batch of scaled inputs.

    Shapes: ``history`` (n, ``HISTORY``, ``COLUMNS``), ``features`` (n, width), ``remaining_h`` (n,).
    """

    history: Floats32
    features: Floats32
    remaining_h: Floats32


@dataclass(frozen=True, slots=True, eq=False)
class InputScaling:
    """Means and deviations of the inputs over training rows, all of logarithms.

    Attributes:
        names: The features, without those of the link.
        column_mean: Shape (``COLUMNS``,), of snapshots.
        column_deviation: Shape (``COLUMNS``,), of snapshots.
        feature_mean: Shape (features + link,).
        feature_deviation: Shape (features + link,).
        may_be_unknown: Shape (features + link,): whether it was unknown in some training row.
    """

    names: tuple[str, ...]
    column_mean: Floats32
    column_deviation: Floats32
    feature_mean: Floats32
    feature_deviation: Floats32
    may_be_unknown: NDArray[np.bool_]

    @classmethod
    def learnt(cls, data: HandOvers) -> Self:
        """Learns the scale from training rows.

        Raises:
            ConfigurationError: There are none.
        """
        if len(data) == 0:
            raise ConfigurationError("there are no hand-overs to learn from; make a data set with windows in it")
        snapshots = logarithm(data.snapshots[data.last.min() - HISTORY + 1 : data.last.max() + 1])
        chain = logarithm(_chain_now(data)).reshape(-1, COLUMNS - QUEUE_COLUMNS)
        features = logarithm(_with_link(data))
        known = np.isfinite(features)
        some = known.any(axis=0)
        masked = np.ma.masked_array(features, ~known)
        return cls(
            data.names,
            np.concatenate([snapshots.mean(axis=0), chain.mean(axis=0)]),
            _deviation(np.concatenate([snapshots.std(axis=0), chain.std(axis=0)])),
            np.where(some, masked.mean(axis=0).filled(0), 0).astype(np.float32),
            _deviation(masked.std(axis=0).filled(0).astype(np.float32)),
            np.asarray(~known.all(axis=0)),
        )

    @property
    def width(self) -> int:
        """Number of a network's features, with the flags of those that may be unknown."""
        return len(self.feature_mean) + int(self.may_be_unknown.sum())

    def columns(self, snapshots: Floats32, first: int = 0) -> Floats32:
        """Scaled columns of snapshots, from column ``first`` on."""
        of = slice(first, first + snapshots.shape[-1])
        return _cut((logarithm(snapshots) - self.column_mean[of]) / self.column_deviation[of])

    def features(self, values: Floats32) -> Floats32:
        """Shape (n, ``width``): scaled features, 0 where unknown, then flags of known ones."""
        known = np.isfinite(values)
        scaled = np.where(known, (logarithm(values) - self.feature_mean) / self.feature_deviation, 0.0)
        return np.concatenate([_cut(scaled), known[:, self.may_be_unknown].astype(np.float32)], axis=1)

    def of_rows(self, history: Floats32, features: Floats32, link: Floats32) -> ScaledInputs:
        """Scales n decisions that do not come from a data set.

        Args:
            history: Shape (n, ``HISTORY``, ``COLUMNS``), as from ``HandOvers.history``.
            features: Shape (n, features).
            link: Shape (n, 4): the values of ``OF_THE_LINK``.
        """
        remaining_h = (link[:, 0] / HOUR_S).astype(np.float32)
        return ScaledInputs(self.columns(history), self.features(np.concatenate([features, link], axis=1)), remaining_h)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that a model file stores; names are not among them."""
        return {f"inputs.{name}": getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, names: tuple[str, ...], arrays: Arrays) -> Self:
        """The scale stored in a model file."""
        return cls(names, **{name: arrays[f"inputs.{name}"] for name in _ARRAYS})


_ARRAYS = tuple(field.name for field in fields(InputScaling) if field.name != "names")


class ScaledHandOvers:
    """Hand-overs with inputs scaled once, which serve batches of rows.

    Args:
        data: The hand-overs.
        scaling: The scale, learnt on training rows, these or others.
    """

    def __init__(self, data: HandOvers, scaling: InputScaling) -> None:
        if data.names != scaling.names:
            raise ConfigurationError(
                f"the features of the data ({', '.join(data.names)}) are not those of the model "
                f"({', '.join(scaling.names)}); make both with one version"
            )
        self.data = data
        self._scaling = scaling
        self._snapshots = scaling.columns(data.snapshots)
        self._features = scaling.features(_with_link(data))
        self._back = np.arange(1 - HISTORY, 1)

    def __len__(self) -> int:
        return len(self.data)

    def only(self, data: HandOvers) -> ScaledHandOvers:
        """Other hand-overs on the same scale."""
        return ScaledHandOvers(data, self._scaling)

    def inputs(self, rows: Ints) -> ScaledInputs:
        """The inputs of some rows."""
        data = self.data
        elapsed_s = data.link_limit_s[rows] - data.remaining_s[rows]
        chain = chain_columns(data.link_nodes[rows], data.link_limit_s[rows], data.wait_s[rows], elapsed_s)
        history = np.empty((len(rows), HISTORY, COLUMNS), dtype=np.float32)
        history[:, :, :QUEUE_COLUMNS] = self._snapshots[data.last[rows, None] + self._back]
        history[:, :, QUEUE_COLUMNS:] = self._scaling.columns(chain, QUEUE_COLUMNS)
        return ScaledInputs(history, self._features[rows], (data.remaining_s[rows] / HOUR_S).astype(np.float32))


def logarithm(values: NDArray[np.generic]) -> Floats32:
    """Signed logarithm: ``sign · log(1 + |x|)``."""
    found: Floats32 = (np.sign(values) * np.log1p(np.abs(values))).astype(np.float32)
    return found


def _with_link(data: HandOvers) -> Floats32:
    """Shape (n, features + link): features, then ``OF_THE_LINK``."""
    link = np.stack([getattr(data, name) for name in OF_THE_LINK], axis=1).astype(np.float32)
    return np.concatenate([data.features, link], axis=1)


def _chain_now(data: HandOvers, most: int = 4096) -> Floats32:
    """Chain columns of some rows, evenly chosen."""
    rows = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).astype(np.int64))
    elapsed_s = data.link_limit_s[rows] - data.remaining_s[rows]
    return chain_columns(data.link_nodes[rows], data.link_limit_s[rows], data.wait_s[rows], elapsed_s)


def _deviation(found: Floats32) -> Floats32:
    """Deviations to divide by: 1 for inputs that never change."""
    return np.where(found > 1e-6, found, 1.0).astype(np.float32)


def _cut(scaled: NDArray[np.floating]) -> Floats32:
    cut: Floats32 = np.clip(scaled, -LARGEST, LARGEST).astype(np.float32)
    return cut
