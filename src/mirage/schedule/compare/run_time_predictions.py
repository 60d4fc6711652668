"""Predictions of run times with an error, in place of users' estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.errors import ConfigurationError
from mirage.schedule.workload.gpu_jobs import GpuJobs

_STREAM = 31
"""Separates these draws from others with the same seed."""


def with_predictions(workload: str, jobs: GpuJobs, error: float, seed: int) -> GpuJobs:
    """Jobs with predicted run times: the true ones times exp(error × N(0, 1)).

    Every scheduler knows the predictions, and no users' estimates. A draw depends on the seed and the number of the job
    in its workload. The share of the work that is done follows from the prediction, too: a scheduler cannot compute the
    true run time from it. A job that has run as long as predicted is expected to run twice as long.

    Args:
        workload: Its name, for messages.
        jobs: Jobs with their numbers in the workload.
        error: Standard deviation of the logarithm; 0 returns the jobs unchanged.
        seed: The same seed gives the same predictions.

    Raises:
        ConfigurationError: The true run time of a job is not known.
    """
    if error == 0.0:
        return jobs
    unknown = np.flatnonzero(~np.isfinite(jobs.run_s))
    if len(unknown):
        raise ConfigurationError(
            f"{workload}: the run time of job {jobs.name[int(unknown[0])]!r} on the GPUs it requests is not known, so "
            "it cannot be predicted; leave out --prediction-error, or the job"
        )
    drawn = np.random.default_rng([seed, _STREAM]).standard_normal(int(jobs.id.max()) + 1)[jobs.id]
    return replace(jobs, estimate_s=jobs.run_s * np.exp(error * drawn))
