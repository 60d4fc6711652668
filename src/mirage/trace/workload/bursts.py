"""The sequence of bursts of a workload model, before they get calendar times."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import JobState
from mirage.trace.workload.workload_model import WorkloadModel, burst_class, limit_class

USE_JITTER = 0.02
"""Largest difference, in quantiles, between the limit use of a job and that of the job it repeats."""

_STREAMS = ("arrival", "week", "return", "user", "size", "gap", "shape", "use", "state")


def generator(seed: int, stream: str) -> np.random.Generator:
    """Returns the random generator of one component."""
    return np.random.default_rng(np.random.SeedSequence(seed).spawn(len(_STREAMS))[_STREAMS.index(stream)])


@dataclass(frozen=True, slots=True)
class Drawn:
    """Jobs in the order in which their bursts arrive; all arrays have shape (n,).

    ``submit_s`` counts from the opening of the burst until the calendar is known.
    """

    burst: Ints
    user: Ints
    submit_s: Ints
    nodes: Ints
    limit_s: Ints
    partition: Ints
    shape: Ints
    elapsed_s: Ints
    state: Ints

    def rows(self, rows: Mask | Ints | slice) -> Drawn:
        """Returns the jobs given by a slice, a mask or an index array."""
        return Drawn(*(getattr(self, f.name)[rows] for f in fields(self)))


def draw_bursts(model: WorkloadModel, nodes: int, seed: int, bursts: int) -> Drawn:
    """Draws a number of bursts; jobs larger than the cluster are cut down to its nodes.

    Every stream is read from front to back, so a shorter sequence is a prefix of a longer one.
    """
    habit_of_user, user_of_burst = _users(model, seed, bursts)
    sizes = WeightedChoice([h.burst_weight for h in model.habits])
    picked = sizes.pick(habit_of_user[user_of_burst], generator(seed, "size").random(bursts))
    size = np.concatenate([h.burst_size for h in model.habits])[picked]
    burst = np.repeat(np.arange(bursts), size)
    opens = np.diff(burst, prepend=-1) > 0
    user = user_of_burst[burst]
    habit, kind = habit_of_user[user], burst_class(size)[burst]

    chain = user * 3 + kind  # jobs repeat what their user did in bursts of that class
    by_chain = np.argsort(chain, kind="stable")
    first = np.empty(len(user), dtype=bool)
    first[by_chain] = np.diff(chain[by_chain], prepend=-1) > 0

    draws = generator(seed, "shape").random((len(user), 2))
    repeats = (draws[:, 0] < model.same_shape[opens.astype(np.int64)]) & ~first
    fresh = WeightedChoice([w for h in model.habits for w in h.shape_weight]).pick(habit * 3 + kind, draws[:, 1])
    shape = fresh[copied_from(repeats, by_chain)]
    nodes_of, limit_of, partition_of = (
        np.concatenate([np.tile(column, 3) for column in columns])
        for columns in zip(*((h.nodes, h.limit_s, h.partition) for h in model.habits))
    )

    draws = generator(seed, "use").random((len(user), 3))
    repeats = (draws[:, 0] < model.same_use[opens.astype(np.int64)]) & ~first
    level = draws[:, 1][copied_from(repeats, by_chain)] + USE_JITTER * (2 * draws[:, 2] - 1)
    elapsed_s = _elapsed_s(model, habit, limit_of[shape], 1 - np.abs(1 - np.abs(level)))
    return Drawn(
        burst=burst,
        user=user,
        submit_s=_offsets(model, seed, opens, kind),
        nodes=np.minimum(nodes_of[shape], nodes),
        limit_s=limit_of[shape],
        partition=partition_of[shape],
        shape=shape,
        elapsed_s=elapsed_s,
        state=_states(model, seed, elapsed_s, limit_of[shape]),
    )


def _elapsed_s(model: WorkloadModel, habit: Ints, limit_s: Ints, level: Floats) -> Ints:
    """Seconds run by jobs at a level, 0 … 1, of their habit's use of such limits; at least 1."""
    function = habit * 3 + limit_class(limit_s)
    below = 1 - np.concatenate([h.used_up for h in model.habits])[function]  # higher levels use the limit up
    level_below = np.minimum(level / np.maximum(below, 1e-9), 1)
    use = at_level(np.concatenate([h.use for h in model.habits]), level_below, function)
    return np.clip(np.rint(np.where(level < below, use, 1) * limit_s), 1, limit_s).astype(np.int64)


def _users(model: WorkloadModel, seed: int, bursts: int) -> tuple[Ints, Ints]:
    """Draws the habit of every user, and the user of every burst.

    A burst comes from the user of a recent burst or from a fresh draw: users have active days.
    """
    habit_of_user = np.repeat(np.arange(len(model.habits)), [h.users for h in model.habits])
    activity = [np.arange(1, h.users + 1.0) ** -h.zipf for h in model.habits]
    share = np.concatenate([h.share * a / a.sum() for h, a in zip(model.habits, activity)])
    fresh = WeightedChoice([share]).pick(np.zeros(bursts, dtype=np.int64), generator(seed, "user").random(bursts))

    draws = generator(seed, "return").random((bursts, 2))
    lag = np.rint(at_level(model.return_lag, draws[:, 1])).astype(np.int64)
    here = np.arange(bursts)
    source = np.where((draws[:, 0] < model.return_share) & (lag <= here), here - lag, here)
    while not np.array_equal(source, source[source]):  # follow every return to its fresh draw
        source = source[source]
    return habit_of_user, fresh[source]


def _offsets(model: WorkloadModel, seed: int, opens: Mask, class_of_job: Ints) -> Ints:
    """Seconds of each job after the opening of its burst."""
    draws = generator(seed, "gap").random((len(opens), 2))
    repeats = (draws[:, 0] < model.same_gap) & ~opens
    level = draws[:, 1][copied_from(repeats, np.arange(len(opens)))]
    gap_s = np.where(opens, 0, np.rint(at_level(model.gap_s, level, class_of_job)).astype(np.int64))
    since_s = np.cumsum(gap_s)
    return np.asarray(since_s - since_s[opens][np.cumsum(opens) - 1], dtype=np.int64)


def _states(model: WorkloadModel, seed: int, elapsed_s: Ints, limit_s: Ints) -> Ints:
    """TIMEOUT for jobs that use up their limit; for others, the model's shares of end states."""
    ends = np.array([JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED], dtype=np.int64)
    row = (elapsed_s >= 0.01 * limit_s).astype(np.int64)
    picked = WeightedChoice(list(model.states)).pick(row, generator(seed, "state").random(len(row)))
    state = ends[picked % len(ends)]
    return np.where(elapsed_s >= limit_s, int(JobState.TIMEOUT), state)


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class WeightedChoice:
    """Several discrete distributions in one array; a draw is an index into all."""

    def __init__(self, weights: list[Floats]) -> None:
        self._edge = np.concatenate([c + np.cumsum(w) / w.sum() for c, w in enumerate(weights)])
        self._last = np.cumsum([len(w) for w in weights]) - 1

    def pick(self, which: Ints, uniform: Floats) -> Ints:
        """Draws indices, shape (n,), from the distribution and the uniform draw of each row."""
        found = np.searchsorted(self._edge, which + uniform, side="right")
        return np.asarray(np.minimum(found, self._last[which]), dtype=np.int64)


def at_level(functions: Floats, level: Floats, which: Ints | int = 0) -> Floats:
    """Evaluates quantile functions.

    Args:
        functions: Shape (m, q) or (q,), values at q levels evenly spaced from 0 to 1.
        level: Shape (n,), 0 … 1.
        which: Index of the function, in [0, m); one for all, or shape (n,).
    """
    functions = np.atleast_2d(functions)
    steps = functions.shape[1] - 1
    below = np.minimum((level * steps).astype(np.int64), steps - 1)
    part = level * steps - below
    low, high = functions[which, below], functions[which, below + 1]
    return np.asarray(low + part * (high - low))


def copied_from(repeats: Mask, order: Ints) -> Ints:
    """Returns the job that each copies: itself, or the last non-repeating one in ``order``."""
    place = np.arange(len(order))
    origin = np.maximum.accumulate(np.where(repeats[order], 0, place))
    source = np.empty(len(order), dtype=np.int64)
    source[order] = order[origin]
    return source
