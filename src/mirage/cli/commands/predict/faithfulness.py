"""Known faithfulness of the simulator on this cluster, as a line and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.calibration.site.stored_calibration import StoredCalibration
    from mirage.cli.commands.predict.cluster_now import ClusterNow


def calibration_here(now: ClusterNow) -> StoredCalibration | None:
    """Returns the stored calibration of this cluster; None without one; warns if unreadable."""
    from mirage.calibration.site.stored_calibration import read_stored_calibration
    from mirage.cli.own_site import own_place

    try:
        return read_stored_calibration(own_place(now.options))
    except ConfigurationError as error:
        click.echo(f"mirage: warning: {error}", err=True)
        return None


def faithfulness_note(now: ClusterNow) -> str:
    """Returns how faithful the simulator is here, as a sentence."""
    stored = calibration_here(now)
    if stored is None:
        return "the simulator's faithfulness here is not known yet; `mirage calibrate --site` measures it"
    now_s = now.queue.time_s
    stale = ", which is stale" if stored.is_stale(now_s) else ""
    return f"the simulator, fitted to this cluster {stored.age(now_s)} ago{stale}: {stored.figures}"


def faithfulness_record(now: ClusterNow) -> dict[str, Any] | None:
    """Returns how faithful the simulator is here, as a JSON object; None if unknown."""
    stored = calibration_here(now)
    return None if stored is None else stored.to_json(now.queue.time_s)
