"""Waits that depend on the request, made up for the tests of the models."""

import numpy as np

from mirage.predict.model_file import Feature
from mirage.predict.waits.wait_sample import WaitSample

HOUR_S, DAY_S = 3600, 86_400


def made_up_sample(n=3000, days=30, seed=0, drift=0.0):
    """Waits of log10 between 2 and 5, by size and load; ``drift`` is added to log10 half way."""
    rng = np.random.default_rng(seed)
    request_s = 1_700_000_000 // DAY_S * DAY_S + np.sort(rng.integers(0, days * DAY_S, n))
    size, load = rng.integers(0, 4, n), rng.random(n)
    log_wait = 2 + 0.5 * size + load + rng.normal(0, 0.1 + 0.15 * size, n)
    log_wait = log_wait + drift * (np.arange(n) > n / 2)
    return WaitSample(
        request_s=request_s,
        waited_s=(10**log_wait).astype(np.int64),
        started=np.ones(n, dtype=bool),
        inputs=np.stack([size, load, rng.random(n)], axis=1).astype(np.float32),
        features=(Feature("size", "1"), Feature("load", "1"), Feature("noise", "1")),
        size_class=(size > 1).astype(np.int64),
        alike=np.arange(n),
    )
