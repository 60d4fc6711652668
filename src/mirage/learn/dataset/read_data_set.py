"""Reads a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError
from mirage.learn.dataset.shards import DataSetFolder
from mirage.learn.hand_overs import HandOvers


def read_hand_overs(
    folder: str | Path,
    *,
    since_s: int | None = None,
    until_s: int | None = None,
    link_nodes: Sequence[int] | None = None,
) -> HandOvers:
    """The rows of a data set, ordered by window, link size and time.

    Args:
        folder: A finished data set of ``mirage learn dataset``.
        since_s: Windows of which the present link was submitted at this time or later.
        until_s: Windows of which all was known by this time: every next link that could have been submitted had
            started. So nothing learnt from them comes from later.
        link_nodes: Link sizes; all by default.

    Raises:
        ConfigurationError: The folder is not a data set, lacks shards or cannot be read, has no links of a size, or no
            rows are left.
    """
    data_set = DataSetFolder(Path(folder))
    manifest = data_set.manifest()
    if absent := sorted(set(link_nodes or ()) - set(manifest["link_nodes"])):
        raise ConfigurationError(
            f"{folder} has links of {_sizes(manifest['link_nodes'])} nodes, and none of {_sizes(absent)}; make a data "
            "set with them, or leave them out"
        )
    shard_s, protocol_s = int(manifest["shard_s"]), (int(manifest["start_s"]), int(manifest["lead_in_s"]))
    submits_s = sum(protocol_s) + np.arange(int(manifest["windows"])) * int(manifest["every_s"])
    numbers = np.unique(submits_s // shard_s).tolist()
    missing = [number for number in numbers if not data_set.rows_path(number, shard_s).exists()]
    if missing:
        raise ConfigurationError(
            f"{folder} lacks {len(missing)} of its {len(numbers)} shards; run the command that made it again to resume"
        )
    found = HandOvers.joined([data_set.read(number, shard_s) for number in numbers])
    selected = np.ones(len(found), dtype=np.bool_)
    if since_s is not None:
        selected &= found.window_s >= since_s
    if until_s is not None:
        selected &= known_by(found, until_s)
    if link_nodes is not None:
        selected &= np.isin(found.link_nodes, link_nodes)
    if not selected.any():
        raise ConfigurationError(f"{folder} has no rows for that time and those links")
    return found[selected]


def _sizes(link_nodes: Sequence[int]) -> str:
    return ", ".join(map(str, link_nodes))


def known_by(rows: HandOvers, until_s: int) -> NDArray[np.bool_]:
    """Shape (n,): whether the whole window of a row was known by a moment."""
    edges = rows.windows()
    over_s = rows.next_start_s  # in the last row of a window not before the end of the present link
    latest_s = np.maximum.reduceat(over_s, edges[:-1]) if len(rows) else over_s
    known: NDArray[np.bool_] = np.repeat(latest_s <= until_s, np.diff(edges))
    return known
