"""Offers: alternative requests of a job, and which of them would start first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.predict.start.predictor import JobRequest, StartPrediction, StartPredictor

FRACTIONS = (1.0, 11 / 12, 3 / 4, 1 / 2, 1 / 4)
"""Limits that are tried by default, as shares of the requested one."""

FINITE_S = (7 * DAY_S, 2 * DAY_S, DAY_S)
"""Limits that are tried by default if the requested one is unlimited."""

TIE_S = 5 * MINUTE_S
"""Starts that are expected within this time of each other count as equal."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One of several requests, with its prediction.

    Attributes:
        sooner_s: By how much it is expected to start sooner than the original request, over the same futures; negative
            if it starts later.
        sooner_share: Share of futures in which it starts sooner.
    """

    request: JobRequest
    prediction: StartPrediction
    sooner_s: float
    sooner_share: float

    @property
    def node_hours(self) -> float:
        """Node-hours that it uses at most; infinite without a limit."""
        if self.request.limit_s >= UNLIMITED_S:
            return math.inf
        return self.request.nodes * self.request.limit_s / HOUR_S


def limits_to_try(limit_s: int) -> list[int]:
    """The requested limit and shorter ones, rounded to what people write; descending."""
    if limit_s >= UNLIMITED_S:
        return [UNLIMITED_S, *FINITE_S]
    tried = [limit_s, *(_rounded(limit_s * fraction) for fraction in FRACTIONS[1:])]
    return sorted({one for one in tried if 0 < one <= limit_s}, reverse=True)


def compare(predictor: StartPredictor, original: JobRequest, others: Sequence[JobRequest]) -> list[Offer]:
    """The original request and others that fit the machine; the first to start comes first.

    All are simulated in the same futures, so their differences come from the requests alone. Among those that are
    expected to start within ``TIE_S`` of the first, the one with the most node-hours comes first: a shorter limit that
    starts no sooner has no advantage.

    Raises:
        ConfigurationError: The machine could not hold the original request.
    """
    base = predictor.of_request(original)
    offers = [Offer(original, base, 0.0, 0.0)]
    for request in dict.fromkeys(others):
        if request == original or not predictor.fits(request):
            continue
        made = predictor.of_request(request)
        sooner_s = base.waits_s - made.waits_s
        offers.append(Offer(request, made, float(sooner_s.mean()), float((sooner_s > 0).mean())))
    first_s = min(offer.prediction.mean_s for offer in offers)
    tied = [offer for offer in offers if offer.prediction.mean_s <= first_s + TIE_S]
    best = max(tied, key=lambda offer: (offer.node_hours, -offer.prediction.mean_s))
    rest = sorted((offer for offer in offers if offer is not best), key=lambda offer: offer.prediction.mean_s)
    return [best, *rest]


def _rounded(limit_s: float) -> int:
    """A limit as people write it: whole hours, quarters of an hour, or minutes."""
    step_s = HOUR_S if limit_s >= 4 * HOUR_S else 15 * MINUTE_S if limit_s >= HOUR_S else MINUTE_S
    return max(int(limit_s // step_s), 1) * step_s
