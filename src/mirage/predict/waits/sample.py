"""Jobs whose wait was asked for, and what was known about their waits at any later moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats, Ints
from mirage.predict.model_file import Feature

SHORTEST_S = 1.0
"""Shorter waits count as this long, since logarithms are taken."""


@dataclass(frozen=True, slots=True)
class WaitSample:
    """Waits and what was known when they were asked for, one row a job.

    Attributes:
        asked_s: Shape (n,), the moment of the prediction, ascending.
        waited_s: Shape (n,), seconds from then until the job started, or was last seen waiting.
        started: Shape (n,), whether it started then; jobs that were withdrawn, or wait to this day, did not.
        inputs: Shape (n, f), what was known then; NaN where it was not.
        features: The f columns.
        size_class: Shape (n,), partition × size of the request, numbered from 0.
        alike: Shape (n,), jobs of one number were submitted together by one user with one request, as arrays are.
    """

    asked_s: Ints
    waited_s: Ints
    started: NDArray[np.bool_]
    inputs: NDArray[np.float32]
    features: tuple[Feature, ...]
    size_class: Ints
    alike: Ints

    def __post_init__(self) -> None:
        if self.inputs.shape != (len(self.asked_s), len(self.features)):
            raise ValueError(f"inputs of shape {self.inputs.shape} for {len(self)} rows, {len(self.features)} features")
        if np.any(np.diff(self.asked_s) < 0):
            raise ValueError("the rows must be in the order of the moments at which the waits are asked for")

    def __len__(self) -> int:
        return len(self.asked_s)

    def __getitem__(self, rows: Any) -> Self:
        """Some of the rows, in their order."""
        return type(self)(
            self.asked_s[rows],
            self.waited_s[rows],
            self.started[rows],
            self.inputs[rows],
            self.features,
            self.size_class[rows],
            self.alike[rows],
        )

    def known_at(self, now_s: int) -> tuple[Floats, NDArray[np.bool_]]:
        """What a look at ``now_s`` tells of every job asked for before.

        Returns:
            log10 of the waits in seconds, and whether they are only lower bounds, because the job still waits or was
            withdrawn; both of shape (m,) for the first m rows, those asked for before ``now_s``.
        """
        rows = int(np.searchsorted(self.asked_s, now_s))
        age_s = now_s - self.asked_s[:rows]
        waited_s = self.waited_s[:rows]
        is_bound = ~self.started[:rows] | (waited_s > age_s)
        return np.log10(np.maximum(np.minimum(waited_s, age_s), SHORTEST_S)), is_bound
