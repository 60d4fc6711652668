"""The jobs of a GPU workload, as a struct of arrays in order of submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.speeds.speed_arrays import LINEAR

ANY_POOL = -1
"""The pool of a job that may run in any pool."""

ALL_TYPES = -1
"""The types of a job that may run on every GPU type: all bits are set."""


def type_mask(names: str, gpu_types: Sequence[str]) -> int:
    """The mask of GPU types written as ``v100/t4``; ``ALL_TYPES`` for an empty text.

    Args:
        names: Names of types with slashes between them.
        gpu_types: The types of the cluster; bit k of the mask is type k.

    Raises:
        UnknownName: The cluster has no GPUs of a type.
    """
    if not names:
        return ALL_TYPES
    mask = 0
    for name in names.split("/"):
        if name not in gpu_types:
            raise UnknownName("GPU type", name, gpu_types)
        mask |= 1 << gpu_types.index(name)
    return mask


def allows_types(masks: Ints, types: int) -> NDArray[np.bool_]:
    """Whether jobs may run on each GPU type, shape (jobs, types).

    Args:
        masks: The mask of each job.
        types: Number of GPU types.
    """
    allowed: NDArray[np.bool_] = (masks[:, None] >> np.arange(types) & 1).astype(np.bool_)
    return allowed


@dataclass(frozen=True, slots=True)
class GpuJobs:
    """Jobs in order of submission, one row each; all arrays have the same length.

    Attributes:
        id: Number of the job in its workload.
        name: Name of the job in its workload.
        submit_s: Seconds since the start of the workload.
        model: Its model in the world's speeds, ``LINEAR`` without measurements.
        gpus: Requested GPUs.
        min_gpus: Smallest number of GPUs that it can run on.
        max_gpus: Largest number of GPUs that it can use.
        batch: Samples between two updates, as requested by its user; 0 for jobs without a batch.
        work: All its work: progress of its model, GPU-seconds under the linear law.
        run_s: True run time on the requested GPUs, under the linear law; NaN if it follows from the model.
        estimate_s: Run time that its user expects; NaN if unknown.
        restart_s: Expected seconds lost at a start, a restart or a resize.
        pool: The only pool that it may run in, or ``ANY_POOL``.
        types: The GPU types that it may run on: bit k of the mask is type k of the cluster; or ``ALL_TYPES``.
        save_s: Expected seconds to write a checkpoint on demand.
        checkpoint_s: Run time between two checkpoints that it writes in any case, on the requested GPUs at speed 1;
            infinite if it writes none.
        epochs: Number of equal parts of its work, as its user set it; 0 if unknown. The length of the first
            one shows the run time.
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
    types: Ints
    save_s: Floats
    checkpoint_s: Floats
    epochs: Ints
    models: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self) if f.name != "models"}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of different length: {lengths}")
        if np.any(self.submit_s[1:] < self.submit_s[:-1]):
            raise ValueError("jobs are not in order of submission")

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, rows: Any) -> GpuJobs:
        """The jobs given by a slice, a mask or an index array in order of submission."""
        names = np.array(self.name, dtype=object)[rows]
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in ("name", "models")}
        return GpuJobs(name=tuple(names), models=self.models, **columns)

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
        types: ArrayLike = ALL_TYPES,
        save_s: ArrayLike = 0.0,
        checkpoint_s: ArrayLike = np.inf,
        epochs: ArrayLike = 0,
        name: tuple[str, ...] | None = None,
    ) -> Self:
        """Jobs without measurements; they are sorted and numbered by submission.

        Args:
            submit_s: Time of submission of each job.
            gpus: GPUs that each job requests.
            run_s: True run time on these GPUs.
            min_gpus: Smallest numbers of GPUs; by default those requested.
            max_gpus: Largest numbers of GPUs; by default those requested.
            estimate_s: Expected run times; by default unknown.
            restart_s: Expected seconds lost at a start or restart, one for all or one per job.
            pool: The pool, one for all or one per job.
            types: Mask of the GPU types, one for all or one per job.
            save_s: Expected seconds of a checkpoint on demand, one for all or one per job.
            checkpoint_s: Run time between two regular checkpoints, one for all or one per job; by default none.
            epochs: Number of epochs, one for all or one per job; by default none.
            name: Names of the jobs; by default their numbers.

        Raises:
            ConfigurationError: A job has no GPU, no work or no time of submission, an infinite amount, or numbers of
                GPUs that contradict each other.
        """
        submitted = np.asarray(submit_s, dtype=np.float64)
        n = len(submitted)
        order = np.argsort(submitted, kind="stable")

        def column(values: ArrayLike, kind: type) -> Any:
            return np.broadcast_to(np.asarray(values, dtype=kind), (n,))[order]

        jobs = cls(
            id=np.arange(n),
            name=tuple(name[k] for k in order) if name is not None else tuple(str(k) for k in range(n)),
            submit_s=submitted[order],
            model=np.full(n, LINEAR),
            gpus=column(gpus, np.int64),
            min_gpus=column(gpus if min_gpus is None else min_gpus, np.int64),
            max_gpus=column(gpus if max_gpus is None else max_gpus, np.int64),
            batch=np.zeros(n, dtype=np.int64),
            work=column(run_s, np.float64) * column(gpus, np.int64),
            run_s=column(run_s, np.float64),
            estimate_s=column(np.nan if estimate_s is None else estimate_s, np.float64),
            restart_s=column(restart_s, np.float64),
            pool=column(pool, np.int64),
            types=column(types, np.int64),
            save_s=column(save_s, np.float64),
            checkpoint_s=column(checkpoint_s, np.float64),
            epochs=column(epochs, np.int64),
        )
        _check(jobs)
        return jobs


def _check(jobs: GpuJobs) -> None:
    """Raise for the first job that cannot run at all."""
    wrong = {
        "its time of submission is not a number": ~np.isfinite(jobs.submit_s),
        "it requests no GPU": jobs.gpus < 1,
        "it may run on no GPU type": jobs.types == 0,
        "it has no work": ~(jobs.work > 0),
        "its work is infinite": np.isinf(jobs.work),
        "its restart cost is not a finite number": ~np.isfinite(jobs.restart_s),
        "its save_s is not a finite number of 0 or more": ~(np.isfinite(jobs.save_s) & (jobs.save_s >= 0)),
        "its checkpoint_s is not above 0": ~(jobs.checkpoint_s > 0),
        "its number of epochs is below 0": jobs.epochs < 0,
        "min_gpus is less than one or more than the GPUs it requests": (jobs.min_gpus < 1)
        | (jobs.min_gpus > jobs.gpus),
        "max_gpus is less than the GPUs it requests": jobs.max_gpus < jobs.gpus,
    }
    for reason, where in wrong.items():
        if where.any():
            k = int(np.flatnonzero(where)[0])
            raise ConfigurationError(f"job {jobs.name[k]!r}: {reason}; fix or remove its row")
