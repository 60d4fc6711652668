"""Ranges of the inputs a model was trained on, and inputs outside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats

BEYOND = 0.1
"""Distance beyond the range at which a queue feature is still accepted, as a share of the range's width: a queue a
little longer than any before is not a different world."""

REPEATS_BEYOND = 1.0
"""The same distance for shares of repeats: as far again as the cluster's own shares were apart in training. On
Lonestar6, December to February, the shares of one month lie up to 0.8 beyond the range of the other months."""


class Outside(NamedTuple):
    """A feature outside the range of training.

    Attributes:
        feature: Its name.
        value: Its value.
        bound: The nearest value in training; NaN where the feature never had a value there.
        allowed: The nearest value at which the model would have decided; None where there is nothing in between.
    """

    feature: str
    value: float
    bound: float
    allowed: float | None = None

    @property
    def words(self) -> str:
        """The feature and its values, in the form that plan reasons use."""
        text = f"feature={self.feature},value={self.value:g},trained={self.bound:g}"
        return text if self.allowed is None else f"{text},allowed={self.allowed:g}"


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Smallest and largest value of every feature in training.

    Attributes:
        names: Names of the features.
        low: Shape (features,); NaN where a feature never had a value.
        high: Shape (features,).
        may_lack: Shape (features,), whether a feature sometimes had no value.
        beyond: Distance beyond its range at which a feature is accepted, as a share of the width.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats
    may_lack: NDArray[np.bool_]
    beyond: float = BEYOND

    @classmethod
    def of(cls, values: NDArray[np.float32], names: tuple[str, ...], beyond: float = BEYOND) -> Self:
        """Ranges of the rows that a model was trained on.

        Args:
            values: Shape (n, features), n > 0; NaN where unknown.
            names: Names of the features.
            beyond: See the attributes.
        """
        known = np.isfinite(values)
        low = np.where(known, values, np.inf).min(axis=0)
        high = np.where(known, values, -np.inf).max(axis=0)
        has_values = known.any(axis=0)
        return cls(
            names,
            np.where(has_values, low, np.nan).astype(np.float64),
            np.where(has_values, high, np.nan).astype(np.float64),
            np.asarray(~known.all(axis=0)),
            beyond,
        )

    def outside(self, values: NDArray[np.float32]) -> Outside | None:
        """The feature furthest outside its range, relative to its width; None if all lie inside.

        Args:
            values: Shape (features,), in the order of ``names``; NaN where unknown.
        """
        values = values.astype(np.float64)
        width = np.maximum(self.high - self.low, np.abs(self.high) * 1e-6 + 1e-9)
        excess = np.maximum(self.low - values, values - self.high) / width
        excess = np.where(np.isnan(values), np.where(self.may_lack, -1.0, np.inf), excess)
        excess = np.where(np.isnan(excess), np.inf, excess)  # a value of a feature that had none in training
        if not len(excess) or excess.max() <= self.beyond:
            return None
        worst = int(excess.argmax())
        below = values[worst] < self.low[worst]
        bound = self.low[worst] if below else self.high[worst]
        allowed = bound + (-1 if below else 1) * self.beyond * width[worst]
        return Outside(self.names[worst], float(values[worst]), float(bound), float(allowed))

    def of_features(self, names: Sequence[str]) -> Self:
        """The ranges of some of the features, in their order here; unknown names are left out."""
        which = np.array([k for k, name in enumerate(self.names) if name in names], dtype=np.int64)
        chosen = tuple(self.names[k] for k in which)
        return replace(self, names=chosen, low=self.low[which], high=self.high[which], may_lack=self.may_lack[which])

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that a model file stores."""
        return {"low": self.low, "high": self.high, "may_lack": self.may_lack, "beyond": np.array([self.beyond])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> Self:
        """The ranges stored in a model file.

        Raises:
            KeyError: The file holds none.
        """
        beyond = float(arrays["beyond"][0]) if "beyond" in arrays else BEYOND  # older files do not have it
        return cls(names, arrays["low"], arrays["high"], arrays["may_lack"].astype(np.bool_), beyond)
