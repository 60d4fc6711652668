"""Coverage and width of intervals by group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.predict.waits.wait_score import interval_figures


def coverage_by(
    log_wait: Floats, quantiles: Floats, levels: Floats, group: NDArray[np.int64]
) -> Mapping[int, tuple[int, dict[str, float]]]:
    """Waits and interval figures of every group."""
    return {
        int(each): (
            int((group == each).sum()),
            interval_figures(log_wait[group == each], quantiles[group == each], levels),
        )
        for each in np.unique(group)
    }
