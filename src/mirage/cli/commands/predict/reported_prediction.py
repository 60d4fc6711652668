"""The prediction for a job: ranges of its start, Slurm's estimate, and their reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mirage.duration import UNLIMITED_S, format_duration
from mirage.errors import StoreError
from mirage.job_state import MISSING, UNFINISHED, JobState

if TYPE_CHECKING:
    from mirage.cli.commands.predict.cluster_now import ClusterNow
    from mirage.cli.commands.predict.requested_job import RequestedJob
    from mirage.predict.start.blended_ranges import QuantileBlend
    from mirage.predict.start.predictor import StartPrediction
    from mirage.predict.start.promise_file import Promises
    from mirage.predict.start.widened_ranges import StartCorrection
    from mirage.slurm.records import QueuedJob
    from mirage.slurm.text.requested_size import RequestedSize


@dataclass(frozen=True, slots=True)
class ReportedPrediction:
    """A prediction as it is printed.

    Attributes:
        job: The job ID; ``MISSING`` for a job that is not submitted yet.
        prediction: None where nothing can be predicted; ``why`` holds the reason.
        quantiles_s: Shape (levels,), quantiles of the wait, corrected by the outcomes of earlier promises, and blended
            with those of a model of accounting.
        slurm_s: Slurm's estimate of the start; ``MISSING`` without one.
        why: Why the job waits, in words; empty for a job that waits its turn.
        outcomes: Number of promises on this cluster with an outcome.
        corrected: Number of promises that corrected the ranges; 0 for uncorrected ranges.
        parts_s: Shape (parts, levels), quantiles from the queue and from accounting; empty without a model.
        blended: Number of promises that determined the blend; 0 for the ranges from the queue alone.
    """

    job: int
    name: str
    nodes: int
    limit_s: int
    partition: str
    prediction: StartPrediction | None
    quantiles_s: tuple[float, ...]
    slurm_s: int
    why: str
    remarks: tuple[str, ...]
    outcomes: int
    corrected: int
    parts_s: tuple[tuple[float, ...], ...] = ()
    blended: int = 0


def report_request(
    now: ClusterNow, requested: RequestedJob, size: RequestedSize, slurm_s: int, correction: StartCorrection
) -> ReportedPrediction:
    """Returns the prediction for a job submitted now.

    Raises:
        ConfigurationError: The job does not fit on the nodes that are up.
    """
    prediction = now.predictor.of_any(now.requests(size))
    partition = ",".join(size.partitions)
    quantiles_s, used = corrected(prediction, correction, partition, size.nodes)
    remarks = (*size.remarks, *now.remarks, *now.reserved(size.partitions, quantiles_s, size.limit_s))
    return ReportedPrediction(
        MISSING, requested.name, size.nodes, size.limit_s, partition, prediction, quantiles_s, slurm_s, "", remarks,
        correction.outcomes(), used,
    )  # fmt: skip


def blended(
    reported: ReportedPrediction, waits_s: Sequence[float], blend: QuantileBlend, now_s: int
) -> ReportedPrediction:
    """Returns a prediction with ranges blended with those of a model of accounting.

    Args:
        reported: The prediction from the queue.
        waits_s: Shape (levels,), the quantiles of the model.
        blend: What is known of both.
        now_s: The cluster's clock.
    """
    import numpy as np

    assert reported.prediction is not None
    horizon_s = float(reported.prediction.horizon_s)
    parts_s = (reported.quantiles_s, tuple(min(wait_s, horizon_s) for wait_s in waits_s))
    quantiles_s = blend.quantiles_s(np.array(parts_s), now_s).round().tolist()
    return replace(reported, quantiles_s=tuple(quantiles_s), parts_s=parts_s, blended=blend.outcomes)


def report_pending(now: ClusterNow, job: QueuedJob, correction: StartCorrection) -> ReportedPrediction:
    """Returns the prediction for a pending job; without ranges if it does not compete now."""
    from mirage.slurm.slurm_view import is_blocked
    from mirage.slurm_words.reasons import in_words

    why, remarks = in_words(job.reason), list(now.remarks)
    prediction = None
    if job.dependency:
        why = f"it waits for another job ({job.dependency})"
    elif is_blocked(job, now.queue.time_s):
        why = why or job.reason or "it does not compete for nodes now"
    elif not (now.view.pending.id == job.id).any():
        why = f"it waits after the first {len(now.view.pending)} jobs, and only those are simulated"
    else:
        prediction = now.predictor.of_pending(job.id)
        if job.array:
            remarks.append("an array: this is its first task")
        if "," in job.partition:
            remarks.append("of its partitions only the first is considered")
    quantiles_s, used = corrected(prediction, correction, job.partition, job.nodes) if prediction else ((), 0)
    remarks += now.reserved(job.partition.split(","), quantiles_s, job.limit_s)
    return ReportedPrediction(
        job.id, job.name, job.nodes, job.limit_s, job.partition, prediction, quantiles_s, job.start_s, why,
        tuple(remarks), correction.outcomes(), used,
    )  # fmt: skip


def corrected(
    prediction: StartPrediction, correction: StartCorrection, partition: str, nodes: int
) -> tuple[tuple[float, ...], int]:
    """Returns the corrected quantiles, shape (levels,), and the number of promises used."""
    from mirage.predict.start.quantile_levels import LEVELS
    from mirage.predict.start.widened_ranges import kind_of

    forecast = prediction.forecast()
    used = correction.outcomes(forecast)
    quantiles_s = prediction.quantiles_s()
    if used:
        quantiles_s = prediction.delay_s + correction.quantiles_s(forecast, LEVELS, kind_of(partition, nodes))
    return tuple(quantiles_s.round().tolist()), used


def promise(promises: Promises, now: ClusterNow, reported: Sequence[ReportedPrediction]) -> None:
    """Stores the printed predictions, unless jobs are hidden; if that fails, only warns."""
    from mirage.predict.start.promise import Promise
    from mirage.predict.start.widened_ranges import thinned

    submitted = {job.id: job.submit_s for job in now.queue.jobs}
    made_s = now.queue.time_s
    try:
        for one in reported:
            if now.hidden or one.prediction is None or (one.job == MISSING and not one.name):
                continue
            slurm_s = float(max(one.slurm_s - made_s, 0)) if one.slurm_s != MISSING else None
            promises.add(
                Promise(
                    now.name, made_s, one.job, submitted.get(one.job, MISSING), now.client.user, one.name,
                    one.partition, one.nodes, one.limit_s, tuple(thinned(one.prediction.waits_s)),
                    one.quantiles_s, slurm_s, parts_s=one.parts_s,
                )
            )  # fmt: skip
    except StoreError as error:
        click.echo(f"mirage: warning: this prediction is not stored: {error}", err=True)


def learnt(promises: Promises, now: ClusterNow) -> StartCorrection:
    """Fills in outcomes and returns the correction; empty, with a warning, without the file."""
    from mirage.predict.start.widened_ranges import StartCorrection

    try:
        promises.fill_in(now.name, [*now.accounted, *now.queue.jobs], now.queue.time_s)
        return promises.correction(now.name)
    except StoreError as error:
        click.echo(f"mirage: warning: past promises are not used: {error}", err=True)
        return StartCorrection()


def learnt_blend(promises: Promises, now: ClusterNow) -> QuantileBlend:
    """Returns the blend by known outcomes; without the file it warns, and blends nothing."""
    from mirage.predict.start.blended_ranges import QuantileBlend
    from mirage.predict.start.quantile_levels import LEVELS

    try:
        return promises.blend(now.name)
    except StoreError as error:
        click.echo(f"mirage: warning: past promises are not used: {error}", err=True)
        return QuantileBlend(LEVELS, 2)


def as_record(reported: ReportedPrediction, now_s: int) -> Mapping[str, Any]:
    """Returns a prediction as a JSON object: times in ISO-8601 UTC, durations in seconds."""
    prediction = reported.prediction
    return {
        "job": reported.job if reported.job != MISSING else None,
        "name": reported.name,
        "nodes": reported.nodes,
        "limit": limit_record(reported.limit_s),
        "partition": reported.partition,
        "now": utc(now_s),
        "wait": waits_record(prediction, reported.quantiles_s) if prediction else None,
        "start": moments(waits_record(prediction, reported.quantiles_s), now_s) if prediction else None,
        "open_share": prediction.open_share if prediction else None,
        "look_ahead": prediction.horizon_s if prediction else None,
        "slurm": {"start": utc(reported.slurm_s), "wait": max(reported.slurm_s - now_s, 0)}
        if reported.slurm_s != MISSING
        else None,
        "why": reported.why,
        "remarks": list(reported.remarks),
        "calibration": {"kept": reported.outcomes, "corrected_by": reported.corrected},
    }


def limit_record(limit_s: int) -> int | str | None:
    """Returns a time limit in seconds, ``UNLIMITED`` as in Slurm, or None where it is unknown."""
    if limit_s >= UNLIMITED_S:
        return format_duration(limit_s)
    return limit_s if limit_s != MISSING else None


def waits_record(prediction: StartPrediction, quantiles_s: Sequence[float]) -> dict[str, Any]:
    """Returns waits in seconds: the mean, and the members of ``ranges_record``."""
    return {"mean": round(prediction.mean_s, 1), **ranges_record(quantiles_s)}


def ranges_record(waits_s: Sequence[float]) -> dict[str, Any]:
    """Returns waits in seconds: the median, and the ends of the ranges by their share."""
    from mirage.predict.start.quantile_levels import MEDIAN, SHARES, ends

    return {"median": waits_s[MEDIAN], **{f"{share:.0%}": [waits_s[end] for end in ends(share)] for share in SHARES}}


def utc(at_s: float) -> str:
    """Returns a time in ISO-8601 UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moments(waits: Mapping[str, Any], from_s: int) -> dict[str, Any]:
    """Returns waits as times, counted from a moment."""
    return {
        key: [utc(from_s + wait_s) for wait_s in value] if isinstance(value, list) else utc(from_s + value)
        for key, value in waits.items()
    }


def pending_job(now: ClusterNow, number: int) -> QueuedJob:
    """Returns the pending job with an ID.

    Raises:
        ConfigurationError: The queue shows no such job, or one that has started.
    """
    from mirage.errors import ConfigurationError

    job = next((job for job in now.queue.jobs if job.id == number), None)
    if job is None:
        raise ConfigurationError(f"the queue shows no job {number}; see `squeue --me`")
    if job.state is not JobState.PENDING:
        since_s = job.start_s if job.state in UNFINISHED else job.end_s
        since = f", since {utc(since_s)}" if since_s != MISSING else ""
        raise ConfigurationError(f"job {number} is {job.state.name.lower()}{since}: it is not pending")
    return job
