"""Moments of a replay: the true start of a link submitted then, and its forecasts.

Both come from the same moment: a fork of the simulation gives the true start, and a forecast uses only the view of the
queue. Each moment is appended to a file as a JSON line; moments already in the file are not played again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast.forecaster import Forecaster
from mirage.policy.view import ChainView
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace

PATIENCE_S = 5 * DAY_S
"""Links are watched so long, and futures are played so long; one that waits longer counts as this."""

LIMIT_S = 48 * HOUR_S

Row = dict[str, Any]


def options_of_moments(parser: argparse.ArgumentParser, every_h: float) -> None:
    """Add the trace, the cluster and the moments to the options of a command."""
    parser.add_argument("trace", type=Path)
    parser.add_argument("--nodes", type=int, default=76)
    parser.add_argument("--link-nodes", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--discipline", default="mirage-2023")
    parser.add_argument("--from", dest="from_s", type=_seconds, default=_seconds("2022-12-01"))
    parser.add_argument("--until", dest="until_s", type=_seconds, default=_seconds("2023-03-29"))
    parser.add_argument("--every-h", type=float, default=every_h)


def replay(options: argparse.Namespace) -> Simulation:
    """The simulation of the trace, at its beginning."""
    cluster = Cluster.pool(options.nodes)
    table = read_trace(options.trace, on_error="skip").table
    return Simulation(cluster, workload(table, cluster), options.discipline)


def moments(
    options: argparse.Namespace, sim: Simulation, casts: Mapping[str, Forecaster], journal: Path | None = None
) -> Iterator[Row]:
    """The true wait and its forecasts, in hours, at each moment and for each link size.

    Args:
        options: As `options_of_moments` defines them.
        sim: The replay.
        casts: The forecasters by name.
        journal: A file of rows that were found before; new ones are added.

    Yields:
        By time: ``now_s``, ``nodes``, ``true_h``, and for each forecaster its futures' waits, ascending.
    """
    known: dict[tuple[int, int], Row] = {}
    if journal is not None and journal.exists():
        known = {(row["now_s"], row["nodes"]): row for row in map(json.loads, journal.read_text().splitlines())}
    branch = sim.fork()
    for now_s in range(options.from_s, options.until_s, round(options.every_h * HOUR_S)):
        if not all((now_s, nodes) in known for nodes in options.link_nodes):
            for row in _played(sim, branch, now_s, options.link_nodes, casts):
                known[now_s, row["nodes"]] = row
                if journal is not None:
                    with journal.open("a") as lines:
                        lines.write(json.dumps(row) + "\n")
        print(np.datetime64(now_s, "s"), end="\r", file=sys.stderr)
        for nodes in options.link_nodes:
            yield known[now_s, nodes]


def _played(
    sim: Simulation, branch: Simulation, now_s: int, link_nodes: list[int], casts: Mapping[str, Forecaster]
) -> Iterator[Row]:
    """The rows of one moment."""
    sim.approach(now_s)
    chains = {nodes: ChainView(nodes, LIMIT_S, -1, now_s, now_s, now_s, 1800) for nodes in link_nodes}
    view = sim.view(chains[link_nodes[0]])
    futures = {name: cast.of(view) for name, cast in casts.items()}
    for nodes, chain in chains.items():
        branch.restore(sim)
        started_s = branch.run_until_started(branch.inject(nodes=nodes, limit_s=LIMIT_S), now_s + PATIENCE_S)
        true_s = PATIENCE_S if started_s is None else started_s - now_s
        row: Row = {"now_s": now_s, "nodes": nodes, "true_h": true_s / HOUR_S}
        for name, of_queue in futures.items():
            played = of_queue.play(chain, np.zeros(1, dtype=np.int64), now_s + PATIENCE_S)
            row[name] = np.sort(played.waits_s[:, 0] / HOUR_S).tolist()
        yield row


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))
