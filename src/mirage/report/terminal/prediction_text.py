"""Predicted starts on the terminal: one job, offers, and accuracy of past predictions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S, format_duration
from mirage.errors import quantity
from mirage.predict.start.offers import Offer
from mirage.predict.start.predictor import JobRequest
from mirage.predict.start.promise_calibration import PromiseCalibration
from mirage.predict.start.quantile_levels import MEDIAN, SHARES, ends
from mirage.report.terminal.console_table import plain_console, print_table


def local(at_s: float) -> str:
    """Formats a time in this machine's zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))


def wait_text(seconds: float) -> str:
    """Formats a wait to the minute, ``1-04:30`` or ``04:30``; below a minute ``now``."""
    if seconds < MINUTE_S:
        return "now"
    days, rest = divmod(round(seconds / MINUTE_S) * MINUTE_S, DAY_S)
    clock = f"{rest // HOUR_S:02d}:{rest % HOUR_S // MINUTE_S:02d}"
    return f"{days}-{clock}" if days else clock


def hours(seconds: float) -> str:
    """Formats a duration: ``4.6 h``, ``25 min``."""
    return f"{seconds / HOUR_S:.1f} h" if seconds >= HOUR_S else f"{seconds / MINUTE_S:.0f} min"


def prediction_lines(
    levels_s: Sequence[float], now_s: int, horizon_s: int, slurm_s: int | None, futures: int
) -> list[str]:
    """Returns the lines about one start: the median, the ranges, Slurm's own estimate.

    Args:
        levels_s: Shape (levels,), quantiles of the wait.
        slurm_s: When Slurm expects the start; None where it has no estimate.
        futures: Number of simulated futures.
    """
    median_s = levels_s[MEDIAN]
    lines = [f"  {'start':<8} {_moment(median_s, now_s, horizon_s)}   the median of {futures} futures"]
    for share in SHARES:
        low, high = (levels_s[end] for end in ends(share))
        first, last = _moment(low, now_s, horizon_s), _moment(high, now_s, horizon_s)
        lines.append(f"  {share:<8.0%} {first} ... {last}")
    slurm_text = _moment(slurm_s - now_s, now_s, horizon_s + slurm_s) if slurm_s is not None else "no estimate"
    return [*lines, f"  {'Slurm':<8} {slurm_text}"]


def calibration_note(n_promises: int, corrected_by: int) -> str:
    """Describes how far the ranges can be trusted on this cluster."""
    if corrected_by:
        promises = quantity(corrected_by, "promise")
        return f"ranges corrected by {promises} recorded on this cluster; see `mirage predict --calibration`"
    if n_promises:
        recorded = f"no promise recorded on this cluster ({n_promises} so far)"
        return f"ranges not corrected: {recorded} was as certain as this one"
    return "ranges not corrected: no promise has been recorded on this cluster yet"


def blend_note(model: str, blended_by: int) -> str:
    """Describes how a model of accounting has changed the ranges."""
    if not blended_by:
        return f"ranges not blended with {model}: no promise made with a model has an outcome yet"
    return f"ranges blended with {model}, by {quantity(blended_by, 'promise')} made with a model"


def print_offers(
    offers: Sequence[Offer], levels_s: Sequence[Sequence[float]], requested: JobRequest, names: Mapping[int, str]
) -> None:
    """Prints offers side by side, the first to start first; a star marks the request.

    Starts and ends are times from now: the range of 80 %, and its later end if the job uses its whole limit.

    Args:
        offers: The first to start first.
        levels_s: Shape (offers, levels), quantiles of their waits.
        requested: The request.
        names: Names of the partitions, by code.
    """
    low, high = ends(0.8)
    heads = ("partition", "nodes", "limit", "expected wait", "starts in, 80 %", "ends by, 80 %", "node hours", "sooner")
    rows = []
    for offer, waits_s in zip(offers, levels_s, strict=True):
        request, prediction = offer.request, offer.prediction
        band = waits_s[low], waits_s[high]
        is_request, has_end = request == requested, request.limit_s < UNLIMITED_S
        rows.append(
            (
                names[request.partition] + (" *" if is_request else ""),
                str(request.nodes),
                format_duration(request.limit_s),
                ("> " if prediction.open_share else "") + wait_text(prediction.mean_s),
                " - ".join(_wait(wait_s, prediction.horizon_s) for wait_s in band),
                _wait(band[1] + request.limit_s, prediction.horizon_s + request.limit_s) if has_end else "-",
                f"{offer.node_hours:.1f}" if has_end else "-",
                "" if is_request else f"{offer.sooner_s / HOUR_S:+.1f} h",
            )
        )
    print_table(plain_console(), heads, rows)


def _wait(wait_s: float, most_s: int) -> str:
    """Formats a wait; one that reaches the end of the futures is a lower bound."""
    return f"> {wait_text(most_s)}" if wait_s >= most_s else wait_text(wait_s)


def advice(offers: Sequence[Offer], requested: JobRequest, names: Mapping[int, str]) -> str:
    """Returns the conclusion from the offers, in a sentence.

    Args:
        offers: The first to start first.
        requested: The request.
        names: Names of the partitions, by code.
    """
    best = offers[0]
    if best.request == requested or best.sooner_s < MINUTE_S:
        return "no alternative that was tried is expected to start sooner than the request"
    return (
        f"{_instead(best.request, requested, names)}: starts {hours(best.sooner_s)} sooner "
        f"(in {best.sooner_share:.0%} of the futures it is sooner)"
    )


def _instead(request: JobRequest, requested: JobRequest, names: Mapping[int, str]) -> str:
    parts = []
    if request.limit_s != requested.limit_s:
        parts.append(f"{_limit(request.limit_s)} instead of {_limit(requested.limit_s)}")
    if request.nodes != requested.nodes:
        parts.append(f"{quantity(request.nodes, 'node')} instead of {requested.nodes}")
    if request.partition != requested.partition:
        parts.append(f"partition {names[request.partition]} instead of {names[requested.partition]}")
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def print_calibration(groups: Sequence[PromiseCalibration]) -> None:
    """Prints how past predictions held: share of waits inside each range, and median errors.

    Slurm's error is printed for comparison.
    """
    heads = (
        "promises",
        "kept",
        *(f"inside {share:.0%}" for share in SHARES),
        "median error",
        "where Slurm spoke",
        "Slurm's",
    )
    rows = [
        (
            one.group,
            str(one.settled),
            *(f"{share:.0%}" for share in one.inside),
            hours(one.error_s),
            hours(one.same_error_s) if one.same_error_s is not None else "-",
            hours(one.slurm_error_s) if one.slurm_error_s is not None else "-",
        )
        for one in groups
    ]
    print_table(plain_console(), heads, rows)


def _limit(seconds: int) -> str:
    return f"{seconds // HOUR_S} h" if seconds % HOUR_S == 0 else format_duration(seconds)


def _moment(wait_s: float, now_s: int, horizon_s: int) -> str:
    """Formats a start and its wait, or that it lies beyond the end of the futures."""
    if wait_s >= horizon_s:
        return f"later than {local(now_s + horizon_s)}"
    wait = wait_text(wait_s)
    return f"{local(now_s + wait_s)} ({wait if wait == 'now' else f'in {wait}'})"
