"""Jobs with waits to predict, and what was known about these waits at any later time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.predict.model_file import Feature

SHORTEST_S = 1.0
"""Shorter waits count as this, because logarithms are taken."""


@dataclass(frozen=True, slots=True)
class WaitSample:
    """Waits and what was known when they were predicted, one row per job.

    Attributes:
        request_s: Shape (n,), the time of the prediction, ascending.
        waited_s: Shape (n,), seconds from then until the job started, or was last observed waiting.
        started: Shape (n,), whether it started then; jobs that were withdrawn, or still wait, did not.
        inputs: Shape (n, f), what was known then; NaN if unknown.
        features: The f columns.
        size_class: Shape (n,), partition × size of the request, numbered from 0.
        alike: Shape (n,), jobs with one number were submitted together by one user with one request, as arrays are.
    """

    request_s: Ints
    waited_s: Ints
    started: NDArray[np.bool_]
    inputs: NDArray[np.float32]
    features: tuple[Feature, ...]
    size_class: Ints
    alike: Ints

    def __post_init__(self) -> None:
        if self.inputs.shape != (len(self.request_s), len(self.features)):
            raise ValueError(f"inputs of shape {self.inputs.shape} for {len(self)} rows, {len(self.features)} features")
        if np.any(np.diff(self.request_s) < 0):
            raise ValueError("the rows must be in the order in which the waits are requested")

    def __len__(self) -> int:
        return len(self.request_s)

    def __getitem__(self, rows: Any) -> Self:
        """Some of the rows, in their order."""
        return type(self)(
            self.request_s[rows],
            self.waited_s[rows],
            self.started[rows],
            self.inputs[rows],
            self.features,
            self.size_class[rows],
            self.alike[rows],
        )

    def known_at(self, now_s: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Returns what is known at ``now_s`` about every job requested before.

        Returns:
            log10 of the waits in seconds, and whether they are only lower bounds, because the job still waits or was
            withdrawn; both of shape (m,) for the first m rows, those requested before ``now_s``.
        """
        rows = int(np.searchsorted(self.request_s, now_s))
        age_s = now_s - self.request_s[:rows]
        waited_s = self.waited_s[:rows]
        is_bound = ~self.started[:rows] | (waited_s > age_s)
        return np.log10(np.maximum(np.minimum(waited_s, age_s), SHORTEST_S)), is_bound
