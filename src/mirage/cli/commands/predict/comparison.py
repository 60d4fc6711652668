"""``mirage predict --compare``: which request would start sooner."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.commands.predict.faithfulness import faithfulness_note, faithfulness_record
from mirage.cli.commands.predict.reported_prediction import corrected, limit_record, moments, utc, waits_record
from mirage.cli.commands.predict.requested_job import RequestedJob, node_count, slurms_estimate
from mirage.duration import UNLIMITED_S, parse_limit_s
from mirage.errors import ConfigurationError, SlurmRefused, UnknownName
from mirage.slurm.text.requested_size import requested_size

if TYPE_CHECKING:
    from mirage.cli.commands.predict.cluster_now import ClusterNow
    from mirage.predict.start.offers import Offer
    from mirage.predict.start.predictor import JobRequest
    from mirage.predict.start.widened_ranges import StartCorrection
    from mirage.slurm.text.requested_size import RequestedSize


MOST_PARTITIONS = 8
"""Maximum number of further partitions to try where none are listed: each costs the controller a request."""


def offers_for(now: ClusterNow, requested: RequestedJob, size: RequestedSize) -> tuple[JobRequest, list[Offer]]:
    """Returns the request itself, and the offers, which include it, by start.

    Raises:
        ConfigurationError: The request does not fit the cluster.
        UnknownName: There is no such partition.
    """
    from mirage.predict.start.offers import compare, limits_to_try

    places = requested.lists.get("partition") or _usable_partitions(now, requested, size)
    limits = [parse_limit_s(text) for text in requested.lists.get("time", ())] or limits_to_try(size.limit_s)
    nodes = [node_count(text) for text in requested.lists.get("nodes", ())] or [size.nodes]
    longest = {partition.name: partition.max_time_s for partition in now.machine.partitions}
    for place in places:
        if place not in longest:
            raise UnknownName("partition", place, longest)
    first = _own_request(now, requested) or now.requests(size)[0]
    others = [
        request
        for place, limit_s, count in product(places, limits, nodes)
        if limit_s <= longest[place] and place not in now.down
        for request in now.requests(replace(size, nodes=count, limit_s=limit_s, partitions=(place,)))
    ]
    offers = compare(now.predictor, first, others)
    _report_left_out(now, requested, [offer.request for offer in offers])
    return first, offers


def _own_request(now: ClusterNow, requested: RequestedJob) -> JobRequest | None:
    """Returns the script's own request where lists replace it; None if it cannot be."""
    if not requested.own:
        return None
    try:
        own = requested_size({**requested.given, **requested.own}, now.machine, now.shared)
    except (ConfigurationError, UnknownName):
        return None
    request = now.requests(own)[0]
    return request if now.predictor.fits(request) else None


def _report_left_out(now: ClusterNow, requested: RequestedJob, offered: list[JobRequest]) -> None:
    """Prints the values of the lists that are in no offer."""
    places = now.names.codes["partition"]
    found: dict[str, tuple[Callable[[str], int], set[int]]] = {
        "nodes": (node_count, {request.nodes for request in offered}),
        "time": (parse_limit_s, {request.limit_s for request in offered}),
        "partition": (places.__getitem__, {request.partition for request in offered}),
    }
    for name, (read, values) in found.items():
        for text in requested.lists.get(name, ()):
            if read(text) not in values:
                why = "the partition is down" if text in now.down else "the cluster accepts no such job"
                click.echo(f"mirage: --{name}={text} is left out: {why}", err=True)


def _usable_partitions(now: ClusterNow, requested: RequestedJob, size: RequestedSize) -> list[str]:
    """Returns the requested partitions and others in which sbatch would accept the job."""
    usable, others = list(size.partitions), [p for p in now.machine.partitions if p.name not in size.partitions]
    for partition in [one for one in others if size.limit_s <= one.max_time_s][:MOST_PARTITIONS]:
        with contextlib.suppress(SlurmRefused):
            slurms_estimate(now.client, requested, partition=partition.name)
            usable.append(partition.name)
    return usable


def show(
    now: ClusterNow,
    offers: list[Offer],
    requested: JobRequest,
    correction: StartCorrection,
    remarks: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Prints the offers, with ranges corrected by past promises, and the advice."""
    from mirage.report.terminal.prediction_text import advice, calibration_note, print_offers

    names = {code: name for name, code in now.names.codes["partition"].items()}
    forecasts = [
        corrected(offer.prediction, correction, names[offer.request.partition], offer.request.nodes) for offer in offers
    ]
    if as_json:
        rows = [_record(offer, *one, names, now.queue.time_s) for offer, one in zip(offers, forecasts)]
        record = {"now": utc(now.queue.time_s), "offers": rows, "advice": advice(offers, requested, names)}
        click.echo(json.dumps({**record, "remarks": list(remarks), "simulator": faithfulness_record(now)}, indent=2))
        return
    print_offers(offers, [quantiles_s for quantiles_s, _ in forecasts], requested, names)
    click.echo(advice(offers, requested, names))
    notes = calibration_note(correction.outcomes(), max(used for _, used in forecasts))
    for remark in (*remarks, notes, faithfulness_note(now)):
        click.echo(f"note: {remark}", err=True)


def _record(
    offer: Offer, quantiles_s: tuple[float, ...], corrected_by: int, names: dict[int, str], now_s: int
) -> dict[str, Any]:
    request, prediction = offer.request, offer.prediction
    waits, has_end = waits_record(prediction, quantiles_s), request.limit_s < UNLIMITED_S
    return {
        "nodes": request.nodes,
        "limit": limit_record(request.limit_s),
        "partition": names[request.partition],
        "wait": waits,
        "finish": moments(waits, now_s + request.limit_s) if has_end else None,
        "corrected_by": corrected_by,
        "open_share": prediction.open_share,
        "node_hours": offer.node_hours if has_end else None,
        "sooner": round(offer.sooner_s, 1),
        "sooner_share": offer.sooner_share,
    }
