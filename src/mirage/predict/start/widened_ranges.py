"""Widened ranges of start forecasts: intervals with too low coverage become wider.

A forecast is a set of futures of the queue. What these have in common (run times that none of them foresees, users
that change their habits) is in none of them. So every promise is stored until its outcome is known: how far from
the middle of its futures it fell. Distances of recent promises, by class, give how far out an interval must reach to
have its nominal coverage: split conformal prediction on a window that fades, of the quantile levels and, past the
earliest and the latest future, of the range of the futures. Both sides are treated alike: the side on which outcomes
fall changes faster than it can be learnt (see docs/explanation/prediction.md).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S, MINUTE_S
from mirage.errors import ModelFileError
from mirage.policy.start_forecast import StartForecast
from mirage.predict.conformal import CalibrationSettings, Scores

AGREE_S = 12 * MINUTE_S
"""Futures agree if their starts differ by at most this."""

NARROWEST_S = 5 * MINUTE_S
"""Past the earliest and the latest future, distance is measured in ranges of the futures, at least this long."""

SETTINGS = CalibrationSettings(half_life_s=30 * DAY_S, others=50.0)
"""How promises fade, and the weight of those of other classes; chosen on Lonestar6, December and January."""

PRIOR = 10.0
"""Weight of assumed promises that fell as predicted; they leave the forecast unchanged at first."""

MOST_PROMISES = 2_000
"""Number of outcomes that are stored; the oldest are dropped first."""

PLACES = 64
"""Futures are thinned to this number of values while their outcome is not known."""

SCHEMA = 1


@dataclass(slots=True)
class PastForecast:
    """A forecast, and the distance of its outcome from the middle of its futures.

    Attributes:
        made_s: When the forecast was made.
        kind: Its class.
        agree: Whether its futures agreed.
        place: Position of the outcome among equal futures, in [0, 1).
        waits_s: Ascending waits that represent its futures; empty when the outcome is known.
        until_s: When its futures end.
        distance: Distance of the outcome from the middle; a lower bound while the outcome is not known.
        is_bound: Whether it is a lower bound.
    """

    made_s: int
    kind: str
    agree: bool
    place: float
    waits_s: list[int]
    until_s: int
    distance: float = 0.0
    is_bound: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns the forecast as plain values."""
        plain = asdict(self)
        return {"asked_s": plain.pop("made_s"), **plain}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """Returns the forecast that ``to_json`` wrote."""
        return cls(plain["asked_s"], **{name: value for name, value in plain.items() if name != "asked_s"})


class StartCorrection:
    """Quantiles of starts with their nominal coverage, learnt from known outcomes.

    Every job that was forecast and started is a promise, including jobs of other users. The state is small and is
    written as JSON. Promises of a class whose futures agree do not mix with those whose futures do not; sizes borrow
    from each other.

    Args:
        settings: How the past fades.
        prior: Weight of assumed promises that fell as predicted.
    """

    def __init__(self, settings: CalibrationSettings = SETTINGS, prior: float = PRIOR) -> None:
        self.settings, self.prior = settings, prior
        self._open: dict[str, PastForecast] = {}
        self._known: list[PastForecast] = []
        self._made = 0

    def promise(self, key: str, forecast: StartForecast, kind: str = "", delay: int = 0) -> None:
        """Store a forecast until its outcome is known.

        Args:
            key: Identifies the job later; an earlier promise with this key is dropped.
            forecast: The forecast start.
            kind: Its class, as returned by ``kind_of``.
            delay: The column of the forecast.
        """
        waits_s = thinned(forecast.waits_s[:, delay])
        self._made += 1
        place = self._made * 0.6180339887498949 % 1.0  # evenly over [0, 1), and identical in every run
        made_s = int(forecast.now_s + forecast.delays_s[delay])
        self._open[key] = PastForecast(made_s, kind, agree(forecast, delay), place, waits_s, int(forecast.until_s))

    def learn(self, key: str, time_s: int, *, started: bool = True) -> None:
        """Record the outcome of a promise.

        Args:
            key: The key of the promise.
            time_s: When the job started, or was last observed waiting before it was withdrawn.
            started: Whether it started at that time.

        Raises:
            KeyError: No promise has this key.
        """
        promise = self._open.pop(key)
        if started:
            wait_s = min(time_s, promise.until_s) - promise.made_s
            promise.distance = abs(_position(np.array(promise.waits_s), wait_s, promise.place) - 0.5)
        else:
            promise.distance = _least_distance(promise, time_s)
        promise.is_bound, promise.waits_s = not started, []
        self._known.append(promise)
        del self._known[:-MOST_PROMISES]

    @property
    def awaited(self) -> tuple[str, ...]:
        """Keys of promises without a known outcome."""
        return tuple(self._open)

    def outcomes(self, forecast: StartForecast | None = None, delay: int = 0) -> int:
        """Number of known outcomes: all, or those that correct a given forecast."""
        alike = None if forecast is None else agree(forecast, delay)
        return sum(alike is None or one.agree == alike for one in self._known)

    def quantiles_s(self, forecast: StartForecast, levels: ArrayLike, kind: str = "", delay: int = 0) -> Floats:
        """Quantiles of the wait from the submission, corrected by outcomes known at the forecast.

        Args:
            forecast: When the job may start.
            levels: Shape (k,), in (0, 1).
            kind: Its class, as returned by ``kind_of``.
            delay: The column of the forecast.

        Returns:
            Shape (k,), in seconds, non-decreasing where levels ascend.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        reach = self._reach(forecast.now_s, agree(forecast, delay), kind, np.abs(2.0 * wanted - 1.0))
        return _read_off(np.sort(forecast.waits_s[:, delay]), 0.5 + np.sign(wanted - 0.5) * reach)

    def _reach(self, now_s: int, agreeing: bool, kind: str, shares: Floats) -> Floats:
        """Distance from the middle that intervals must reach to hold these shares."""
        alike = [one for one in self._known if one.agree == agreeing and one.made_s <= now_s]
        waiting = [one for one in self._open.values() if one.agree == agreeing and one.made_s < now_s]
        observed = [*alike, *waiting]
        distance = [one.distance for one in alike] + [_least_distance(one, now_s) for one in waiting]
        as_promised = (np.arange(PLACES) + 0.5) / PLACES / 2.0
        scores = Scores(
            np.array([one.made_s for one in observed] + [now_s] * PLACES, dtype=np.int64),
            np.concatenate([np.array(distance, dtype=np.float64), as_promised]),
            np.array([one.is_bound for one in observed] + [False] * PLACES),
            np.array([one.kind != kind for one in observed] + [False] * PLACES, dtype=np.int64),
            np.concatenate([np.ones(len(observed)), np.full(PLACES, self.prior / PLACES)]),
        )
        return scores.quantiles(0, now_s, shares, self.settings)

    def to_json(self) -> str:
        """Returns the promises and outcomes as text."""
        state = {
            "schema": SCHEMA,
            "made": self._made,
            "open": {key: one.to_json() for key, one in self._open.items()},
            "known": [one.to_json() for one in self._known],
        }
        return json.dumps(state)

    @classmethod
    def from_json(cls, text: str, settings: CalibrationSettings = SETTINGS, prior: float = PRIOR) -> Self:
        """Returns the correction that ``to_json`` wrote.

        Raises:
            ModelFileError: The text is not a correction, or is of a newer version.
        """
        made = cls(settings, prior)
        try:
            state = json.loads(text)
            if state["schema"] != SCHEMA:
                raise ModelFileError(f"a start correction of schema {state['schema']}; this version reads {SCHEMA}")
            made._made = int(state["made"])
            made._open = {key: PastForecast.from_json(one) for key, one in state["open"].items()}
            made._known = [PastForecast.from_json(one) for one in state["known"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"not a start correction ({error}); delete it, and it is learnt again") from error
        return made


def thinned(waits_s: Ints) -> list[int]:
    """Reduces the waits of all futures to ``PLACES`` of them, ascending."""
    levels = (np.arange(PLACES) + 0.5) / PLACES
    found: list[int] = np.quantile(waits_s, levels, method="inverted_cdf").astype(int).tolist()
    return found


def kind_of(partition: str, nodes: int) -> str:
    """The class of a request: partition and size, one node, 2 to 7, or more."""
    size = "1 node" if nodes == 1 else "2-7 nodes" if nodes < 8 else "8+ nodes"
    return f"{partition} {size}".lstrip()


def agree(forecast: StartForecast, delay: int = 0) -> bool:
    """Whether all futures start the job within twelve minutes of each other."""
    return bool(np.ptp(forecast.waits_s[:, delay]) <= AGREE_S)


def _least_distance(promise: PastForecast, now_s: int) -> float:
    """Least distance of a waiting job from the middle: 0 until half of the futures are past."""
    waited_s = min(now_s, promise.until_s) - promise.made_s
    return max(_position(np.array(promise.waits_s), waited_s, 0.0) - 0.5, 0.0) if promise.waits_s else promise.distance


def _position(waits_s: Ints, wait_s: float, place: float) -> float:
    """The share of futures below a wait; outside them, continued in ranges of the futures."""
    range_s = max(float(waits_s[-1] - waits_s[0]), NARROWEST_S)
    if wait_s < waits_s[0]:
        return -float(waits_s[0] - wait_s) / range_s
    if wait_s > waits_s[-1]:
        return 1.0 + float(wait_s - waits_s[-1]) / range_s
    below, up_to = np.searchsorted(waits_s, wait_s, "left"), np.searchsorted(waits_s, wait_s, "right")
    return float(below + place * (up_to - below)) / len(waits_s)


def _read_off(waits_s: Ints, positions: Floats) -> Floats:
    """The waits at these positions: the inverse of ``_position``, linear between futures."""
    range_s = max(float(waits_s[-1] - waits_s[0]), NARROWEST_S)
    inside = np.interp(positions, np.linspace(0.0, 1.0, len(waits_s)), waits_s)
    beyond_s = (np.minimum(positions, 0.0) + np.maximum(positions - 1.0, 0.0)) * range_s
    return np.maximum(inside + beyond_s, 0.0)
