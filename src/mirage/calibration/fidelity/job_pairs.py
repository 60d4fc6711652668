"""Pairs a recorded and a simulated history by job, and counts unmatched jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.errors import ConfigurationError, quantity, shortened
from mirage.job_state import MISSING
from mirage.sim.schedule import Schedule
from mirage.trace.table import JobTable

SAME_S = 60
"""Submissions that differ by no more than this are equal: clocks and replays are late by fractions of a minute."""


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Number of jobs of both sides by result; jobs submitted outside the span do not count.

    Attributes:
        recorded: Jobs recorded.
        simulated: Jobs simulated.
        only_recorded: Recorded, not simulated.
        only_simulated: Simulated, not recorded.
        recorded_wait_unknown: In both, but the record has no submission or no start, or a start before the submission.
        simulated_wait_unknown: In both with a known recorded wait, but not started in the simulation.
        compared: In both with two known waits; this and the three other fates of recorded jobs sum to ``recorded``.
        submitted_apart: Compared, although the two submissions are more than a minute apart.
    """

    recorded: int
    simulated: int
    only_recorded: int
    only_simulated: int
    recorded_wait_unknown: int
    simulated_wait_unknown: int
    compared: int
    submitted_apart: int


@dataclass(frozen=True, slots=True)
class PairedJobs:
    """The n jobs with waits known on both sides, by recorded submission.

    Attributes:
        jobs: As recorded.
        submit_s: Shape (n,), simulated submissions on the clock of the record.
        start_s: Shape (n,), simulated starts on the same clock.
        end_s: Shape (n,), simulated ends on the same clock, ``MISSING`` where there is none.
        shift_s: Seconds added to simulated instants: the difference of the two clocks.
        counts: Number of jobs by result.
    """

    jobs: JobTable
    submit_s: Ints
    start_s: Ints
    end_s: Ints
    shift_s: int
    counts: PairCounts

    @classmethod
    def of(
        cls,
        recorded: JobTable,
        simulated: JobTable | Schedule,
        from_s: int | None = None,
        until_s: int | None = None,
    ) -> Self:
        """Pairs two histories by job id, and rows of one id by their order of submission.

        Args:
            recorded: The jobs with their real starts and ends.
            simulated: The same jobs with simulated starts and ends.
            from_s: Jobs with an earlier recorded submission are left out.
            until_s: Jobs submitted at this time or later are left out.

        Raises:
            ConfigurationError: No job is in both histories, or no job has two known waits.
        """
        ours = _as_table(simulated)
        here, there = _common(recorded, ours)
        if not len(here):
            raise ConfigurationError(_nothing_common(recorded, ours))
        shift_s = _shift_s(recorded.submit_s[here], ours.submit_s[there])
        first, last = _bound(from_s, -np.inf), _bound(until_s, np.inf)

        def within(submit_s: Ints) -> NDArray[np.bool_]:
            known = submit_s >= 0
            return (known & (submit_s >= first) & (submit_s < last)) | ((from_s is None) & (until_s is None) & ~known)

        inside = within(recorded.submit_s[here])
        only_ours = np.setdiff1d(np.arange(len(ours)), there)
        on_clock = _moved(ours.submit_s, shift_s)
        recorded_rows = int(within(recorded.submit_s).sum())
        only_simulated = int(within(on_clock[only_ours]).sum())
        here, there = here[inside], there[inside]
        known = recorded.wait_s[here] >= 0
        both = known & (ours.wait_s[there] >= 0)
        if not both.any():
            raise ConfigurationError(_nothing_known(int(inside.sum()), int(known.sum())))
        order = np.argsort(recorded.submit_s[here[both]], kind="stable")
        rows, others = here[both][order], there[both][order]
        apart = np.abs(recorded.submit_s[rows] - on_clock[others]) > SAME_S
        counts = PairCounts(
            recorded=recorded_rows,
            simulated=len(here) + only_simulated,
            only_recorded=recorded_rows - len(here),
            only_simulated=only_simulated,
            recorded_wait_unknown=int((~known).sum()),
            simulated_wait_unknown=int((known & ~both).sum()),
            compared=len(rows),
            submitted_apart=int(apart.sum()),
        )
        start_s, end_s = (_moved(column[others], shift_s) for column in (ours.start_s, ours.end_s))
        return cls(recorded[rows], on_clock[others], start_s, end_s, shift_s, counts)

    @property
    def wait_s(self) -> Ints:
        """Seconds from simulated submission to simulated start, shape (n,)."""
        return self.start_s - self.submit_s

    def __len__(self) -> int:
        return len(self.jobs)


def _as_table(simulated: JobTable | Schedule) -> JobTable:
    if isinstance(simulated, Schedule):
        return simulated.table.with_columns(start_s=simulated.start_s, end_s=simulated.end_s)
    return simulated


def _common(a: JobTable, b: JobTable) -> tuple[Ints, Ints]:
    """Returns the rows of both tables that are the same job: the k-th submission of an id.

    Submissions that never started come last: a replay has none of them.
    """
    code = np.unique(np.concatenate([a.job_id, b.job_id]), return_inverse=True)[1]
    ours, theirs = _key(code[: len(a)], a), _key(code[len(a) :], b)
    _, here, there = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return here, there


def _key(code: Ints, jobs: JobTable) -> Ints:
    """Returns a number per row: equal for equal ids with equal rank among their submissions."""
    order = np.lexsort((jobs.submit_s, jobs.never_started, code))
    at = np.arange(len(code))
    new = np.r_[True, np.diff(code[order]) != 0] if len(code) else np.zeros(0, dtype=bool)
    place = np.empty_like(at)
    place[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    key: Ints = code.astype(np.int64) * 2**32 + place
    return key


def _shift_s(recorded_s: Ints, simulated_s: Ints) -> int:
    """Returns the offset of the clocks that most submissions share, if it exceeds a minute."""
    known = (recorded_s >= 0) & (simulated_s >= 0)
    if not known.any():
        return 0
    offset_s = recorded_s[known] - simulated_s[known]
    middle_s = int(np.median(offset_s))
    shared = float((np.abs(offset_s - middle_s) <= SAME_S).mean()) > 0.5
    return middle_s if shared and abs(middle_s) > SAME_S else 0


def _moved(instant_s: Ints, shift_s: int) -> Ints:
    return np.where(instant_s == MISSING, MISSING, instant_s + shift_s)


def _bound(instant_s: int | None, otherwise: float) -> float:
    return otherwise if instant_s is None else instant_s


def _nothing_common(recorded: JobTable, simulated: JobTable) -> str:
    sides = (f"{quantity(len(jobs), 'job')}{_ids(jobs.job_id[:3])}" for jobs in (recorded, simulated))
    return (
        "no job is both recorded and simulated: {} are recorded, {} simulated; "
        "simulate the same trace that is compared, with its job ids unchanged".format(*sides)
    )


def _ids(some: Sequence[Any] | NDArray[Any]) -> str:
    return f" with ids as {', '.join(shortened(str(one), 20) for one in some)}" if len(some) else ""


def _nothing_known(common: int, known: int) -> str:
    if not common:
        return "no job that is both recorded and simulated was submitted in the span; choose another --from and --until"
    if not known:
        return (
            f"none of {common:,} jobs has a recorded submission and start, so there is nothing to compare with; "
            "is the trace a workload without starts?"
        )
    return f"none of {known:,} jobs was started in the simulation; simulate to the end of the trace"
