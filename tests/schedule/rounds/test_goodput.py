"""The best batch against all batches tried one by one, and statistical efficiency by hand."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from mirage.schedule.rounds.goodput import accumulation_of, best_batch, efficiency, gain, step_s

PARAMETERS = np.array([0.02, 0.0007, 0.08, 0.008, 0.03, 0.004, 1.4])


def test_efficiency_by_hand() -> None:
    assert gain(1.0, 3.0, 1.0) == 1.0
    assert gain(1.0, 3.0, 3.0) == pytest.approx(2.0)  # (3 + 1) / (3/3 + 1)
    assert efficiency(1.0, 3.0, 3.0) == pytest.approx(2 / 3)
    assert gain(0.0, 1.0, 5.0) == 5.0  # nothing but noise: every sample counts
    assert gain(0.0, 0.0, 5.0) == 1.0


def test_accumulation_by_hand() -> None:
    assert accumulation_of(100.0, 100, 2, 10) == 0
    assert accumulation_of(101.0, 100, 2, 10) == 1
    assert accumulation_of(20.0, 100, 1, 10) == 1  # one GPU beyond the first batch
    assert accumulation_of(10.0, 100, 1, 10) == 0


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 24])
@pytest.mark.parametrize(("first", "most", "noise"), [(128, 4096, 5.0), (128, 4096, 0.1), (100, 100, 1.0)])
def test_as_good_as_all_candidates_tried_one_by_one(gpus: int, first: int, most: int, noise: float) -> None:
    servers, least_local, most_local = -(-gpus // 8), 32, 512
    found, local, passes = best_batch(PARAMETERS, 1.0, noise, servers, gpus, first, most, least_local, most_local)
    best = 0.0
    for wanted in np.geomspace(max(first, least_local * gpus), most, 50) / gpus:
        n = max(ceil(wanted / most_local - 1e-8) - 1, int(gpus == 1 and wanted > first + 1e-8))
        m = ceil(wanted / (n + 1) - 1e-8)
        if least_local <= m <= most_local:
            batch = gpus * m * (n + 1)
            rate = batch / step_s(PARAMETERS, servers, gpus, m, n)
            best = max(best, rate * efficiency(1.0, noise, batch / first))
    assert found == pytest.approx(best)
    batch = gpus * local * (passes + 1)
    at = batch / step_s(PARAMETERS, servers, gpus, local, passes) * efficiency(1.0, noise, batch / first)
    assert at == pytest.approx(found)


def test_noisier_gradients_make_larger_batches() -> None:
    sizes = [best_batch(PARAMETERS, 1.0, noise, 1, 4, 128, 4096, 32, 1024)[1] for noise in (0.1, 1.0, 10.0, 100.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
