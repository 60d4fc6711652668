"""The jobs of a GPU workload, as a struct of arrays by submission."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.schedule.speeds.arrays import LINEAR

ANY_POOL = -1
"""The pool of a job that may run in any."""


@dataclass(frozen=True, slots=True)
class GpuJobs:
    """Jobs in order of submission, one row each; all arrays have the same length.

    Attributes:
        id: Number of the job in its workload.
        name: What the workload calls it.
        submit_s: Seconds since the start of the workload.
        model: Its model in the world's speeds, ``LINEAR`` where nothing was measured.
        gpus: GPUs it asks for.
        min_gpus: The fewest it can run on.
        max_gpus: The most it can use.
        batch: Samples between two updates that its user asks for; 0 where the model does not say.
        work: All its work: progress of its model, GPU-seconds under the linear law.
        run_s: True run time on the GPUs asked for, under the linear law; NaN where it follows from the model.
        estimate_s: What its user expects the run time to be; NaN for no idea.
        restart_s: Expected seconds lost at a start, a restart or a resize.
        pool: The only pool it may run in, or ``ANY_POOL``.
        models: Names of the models.
    """

    id: Ints
    name: tuple[str, ...]
    submit_s: Floats
    model: Ints
    gpus: Ints
    min_gpus: Ints
    max_gpus: Ints
    batch: Ints
    work: Floats
    run_s: Floats
    estimate_s: Floats
    restart_s: Floats
    pool: Ints
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self) if f.name != "models"}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of different length: {lengths}")
        if np.any(np.diff(self.submit_s) < 0):
            raise ValueError("jobs are not in order of submission")

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, rows: Any) -> GpuJobs:
        """The jobs given by a slice, a mask or an index array in order of submission."""
        names = np.array(self.name, dtype=object)[rows]
        kept = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in ("name", "models")}
        return GpuJobs(name=tuple(names), models=self.models, **kept)

    @classmethod
    def linear(
        cls,
        submit_s: ArrayLike,
        gpus: ArrayLike,
        run_s: ArrayLike,
        *,
        min_gpus: ArrayLike | None = None,
        max_gpus: ArrayLike | None = None,
        estimate_s: ArrayLike | None = None,
        restart_s: ArrayLike = 0.0,
        pool: ArrayLike = ANY_POOL,
        name: tuple[str, ...] | None = None,
    ) -> Self:
        """Jobs of which nothing was measured; they are put in order of submission and numbered so.

        Args:
            submit_s: When each is submitted.
            gpus: GPUs each asks for.
            run_s: True run time on these.
            min_gpus: The fewest; by default those asked for.
            max_gpus: The most; by default those asked for.
            estimate_s: Expected run times; by default nothing is known.
            restart_s: Expected seconds lost at a start or restart, one for all or one each.
            pool: The pool, one for all or one each.
            name: What they are called; by default their number.

        Raises:
            ConfigurationError: A job has no GPU, no work or no time of submission, or something of it has no end.
        """
        submitted = np.asarray(submit_s, dtype=np.float64)
        n = len(submitted)
        order = np.argsort(submitted, kind="stable")

        def column(values: ArrayLike | None, default: ArrayLike, kind: type) -> Any:
            given = default if values is None else values
            return np.ascontiguousarray(np.broadcast_to(np.asarray(given, dtype=kind), (n,))[order])

        jobs = cls(
            id=np.arange(n, dtype=np.int64),
            name=tuple(name[k] for k in order) if name is not None else tuple(str(k) for k in range(n)),
            submit_s=submitted[order],
            model=np.full(n, LINEAR, dtype=np.int64),
            gpus=column(gpus, 1, np.int64),
            min_gpus=column(min_gpus, gpus, np.int64),
            max_gpus=column(max_gpus, gpus, np.int64),
            batch=np.zeros(n, dtype=np.int64),
            work=column(run_s, 0.0, np.float64) * column(gpus, 1, np.int64),
            run_s=column(run_s, 0.0, np.float64),
            estimate_s=column(estimate_s, np.nan, np.float64),
            restart_s=column(restart_s, 0.0, np.float64),
            pool=column(pool, ANY_POOL, np.int64),
        )
        _check(jobs)
        return jobs


def _check(jobs: GpuJobs) -> None:
    """Stop at the first job that cannot be run at all."""
    wrong = {
        "its time of submission is not a number": ~np.isfinite(jobs.submit_s),
        "it asks for no GPU": jobs.gpus < 1,
        "it has no work": ~(jobs.work > 0),
        "its work has no end": np.isinf(jobs.work),
        "what a restart costs it is not a number": ~np.isfinite(jobs.restart_s),
        "its fewest GPUs are more than it asks for, or less than one": (jobs.min_gpus < 1)
        | (jobs.min_gpus > jobs.gpus),
        "its most GPUs are fewer than it asks for": jobs.max_gpus < jobs.gpus,
    }
    for reason, where in wrong.items():
        if where.any():
            k = int(np.flatnonzero(where)[0])
            raise ConfigurationError(f"job {jobs.name[k]!r}: {reason}; mend or leave out its row")
