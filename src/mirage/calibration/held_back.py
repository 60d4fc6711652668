"""Mechanisms that survive on slices that were held back from the fit, by rolling origin.

The fitted slice is divided at several origins. At each origin the mechanisms are fitted to the part before it, and the
slice after it is replayed with them and without each. A mechanism that makes these held-back slices worse on average
fits accidents of its slice: it is left out of the fit to the whole slice. The slice that judges the calibration is not
used (Tashman, International Journal of Forecasting, 2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fit_mechanisms import (
    ORIGIN_TRIES,
    SHORTEST_S,
    OnTry,
    TraceSlice,
    counted,
    error,
    fit,
    judged,
    replays_at_most,
)
from mirage.calibration.mechanisms import NAMES, Mechanisms, Site
from mirage.duration import DAY_S

MOST_ORIGINS = 4

HARM = 0.005
"""A mechanism is left out if it increases the mean error of the held-back slices by more than this; a smaller
difference is noise of the replay."""


@dataclass(frozen=True, slots=True)
class HeldBackEffect:
    """Effect of one mechanism on the held-back slices for which the fit had chosen it.

    Attributes:
        name: The mechanism.
        slices: Number of these slices.
        error_with: Mean of ``fit_mechanisms.error`` with it.
        error_without: The same without it.
        mape_with: Mean error of the moving average with it; None where it is not defined.
        mape_without: The same without it.
        left_out: Whether it is left out of the fit.
    """

    name: str
    slices: int
    error_with: float
    error_without: float
    mape_with: float | None
    mape_without: float | None
    left_out: bool


def origins(stretch: TraceSlice) -> tuple[tuple[TraceSlice, TraceSlice], ...]:
    """Returns the divisions of a slice: a part to fit to, and the held-back slice after it.

    Both span two weeks at least, and each held-back slice begins where the one before ended. A slice of less than four
    weeks cannot be divided.
    """
    days = (stretch.until_s - stretch.from_s) // DAY_S
    shortest = SHORTEST_S // DAY_S
    count = min(MOST_ORIGINS, (days - shortest) // shortest)
    if count < 1:
        return ()
    edges_s = [stretch.from_s + round(shortest + (days - shortest) * k / count) * DAY_S for k in range(count)]
    edges_s.append(stretch.until_s)
    return tuple(
        (TraceSlice(stretch.from_s, begin_s), TraceSlice(begin_s, end_s)) for begin_s, end_s in pairwise(edges_s)
    )


def held_back_effects(site: Site, stretch: TraceSlice, on_try: OnTry | None = None) -> tuple[HeldBackEffect, ...]:
    """Returns the effect of every mechanism that a fit before an origin chose.

    The most harmful mechanism is left out first, and the others are then compared without it.

    Args:
        site: The cluster.
        stretch: The slice to divide; nothing after it is used.
        on_try: See ``fit``.
    """
    divided = origins(stretch)
    parts = [part for part, _ in divided]
    most = _most_replays(site, stretch)
    fitted = []
    for k, part in enumerate(parts):
        fitted.append(fit(site, part, counted(on_try, sum(most[:k]), sum(most)), tries=ORIGIN_TRIES))
    replays = _Replays(site, [held for _, held in divided])
    effects: dict[str, HeldBackEffect] = {}
    left_out: list[str] = []
    while True:
        found = _effects(replays, fitted, left_out)
        effects |= found
        harm = {name: effect.error_with - effect.error_without for name, effect in found.items()}
        worst = max(harm, key=harm.__getitem__, default="")
        if not worst or harm[worst] <= HARM:
            return tuple(effects[name] for name in NAMES if name in effects)
        effects[worst] = replace(effects[worst], left_out=True)
        left_out.append(worst)


def replays_to_divide(site: Site, stretch: TraceSlice) -> int:
    """Returns the largest number of replays of the fits before the origins."""
    return sum(_most_replays(site, stretch))


def _most_replays(site: Site, stretch: TraceSlice) -> list[int]:
    return [replays_at_most(site, part, ORIGIN_TRIES) for part, _ in origins(stretch)]


class _Replays:
    """Replays of the held-back slices; each is made once."""

    def __init__(self, site: Site, held: Sequence[TraceSlice]) -> None:
        self._site, self._held = site, held
        self._made: dict[tuple[int, Mechanisms], Fidelity] = {}

    def fidelity(self, k: int, chosen: Mechanisms) -> Fidelity:
        """Returns the fidelity of a replay of one of the slices."""
        key = (k, chosen.settled())
        if key not in self._made:
            self._made[key] = judged(self._site, key[1], self._held[k])
        return self._made[key]


def _effects(replays: _Replays, fitted: Sequence[Mechanisms], left_out: Sequence[str]) -> dict[str, HeldBackEffect]:
    """Returns the effects of the mechanisms that are not left out."""
    remaining = [_without(chosen, left_out) for chosen in fitted]
    effects = {}
    for name in NAMES:
        pairs = [
            (replays.fidelity(k, chosen), replays.fidelity(k, chosen.without(name)))
            for k, chosen in enumerate(remaining)
            if chosen.without(name) != chosen
        ]
        if pairs:
            effects[name] = HeldBackEffect(
                name,
                len(pairs),
                _mean([error(one) for one, _ in pairs]),
                _mean([error(one) for _, one in pairs]),
                _mean_mape([one for one, _ in pairs]),
                _mean_mape([one for _, one in pairs]),
                left_out=False,
            )
    return effects


def _without(chosen: Mechanisms, names: Sequence[str]) -> Mechanisms:
    for name in names:
        chosen = chosen.without(name)
    return chosen


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _mean_mape(found: Sequence[Fidelity]) -> float | None:
    known = [one.moving_average.mape for one in found if one.moving_average.mape is not None]
    return _mean(known) if known else None
