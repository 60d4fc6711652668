"""Recipe of a data set: everything that determines it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mirage.duration import DAY_S
from mirage.provision.evaluation.evaluation_study import Study
from mirage.sim.contract.job_labels import LabelBook
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.source_digest import source_digest
from mirage.version import __version__

SHARD_S = 4 * DAY_S
"""Time span of a shard, by the submission of the windows' present links."""

SCHEMA = 1

_CODE = ("mirage.learn.dataset.window", "mirage.learn.dataset.shards")
"""Modules that make the data; the modules they import count as well."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Windows of one time span.

    Attributes:
        number: Number of the span, counted since 1970.
        windows: Numbers of the windows, ascending.
    """

    number: int
    windows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Sources and settings of a data set.

    Attributes:
        study: Cluster, windows and link sizes; it has no candidates.
        futures: Futures of the forecast for each row's features; None for no forecast.
        views: Whether rows have features and snapshots, or labels only.
        shard_s: Time span of a shard.
    """

    study: Study
    futures: int | None
    views: bool = True
    shard_s: int = SHARD_S

    def shards(self) -> list[Shard]:
        """The shards in order of time; their windows do not depend on the executor."""
        protocol = self.study.protocol
        found: dict[int, list[int]] = {}
        for window in range(protocol.windows):
            found.setdefault(protocol.submits_s(window) // self.shard_s, []).append(window)
        return [Shard(number, tuple(windows)) for number, windows in found.items()]

    def manifest(self) -> dict[str, Any]:
        """Plain values that distinguish recipes: equal values give equal data."""
        study, scenario, protocol = self.study, self.study.scenario, self.study.protocol
        return {
            "schema": SCHEMA,
            "version": __version__,
            "numpy": np.__version__,
            "code": source_digest([*_CODE, discipline_spec(scenario.discipline).entry.partition(":")[0]])[:16],
            "trace": _trace_digest(self),
            "cluster": hashlib.sha256(repr(scenario.cluster).encode()).hexdigest()[:16],
            "nodes": scenario.cluster.nodes,
            "discipline": scenario.discipline,
            "settings": repr(scenario.settings),
            "protocol": protocol.name,
            "start_s": protocol.begin_s,
            "windows": protocol.windows,
            "every_s": protocol.every_s,
            "step_s": protocol.step_s,
            "lead_in_s": protocol.lead_in_s,
            "further": repr(replace(protocol, begin_s=0, windows=0, every_s=0, step_s=0)),
            "link_nodes": [link.nodes for link in study.links],
            "link_limit_s": [link.limit_s for link in study.links],
            "seed": study.seed,
            "views": self.views,
            "futures": self.futures,
            "shard_s": self.shard_s,
        }


def digest_of(manifest: dict[str, Any]) -> str:
    """Digest of a manifest; shards carry it, so shards of other recipes are never reused."""
    return hashlib.sha256(repr(sorted(manifest.items())).encode()).hexdigest()[:16]


def _trace_digest(recipe: Recipe) -> str:
    jobs = recipe.study.scenario.jobs
    digest = hashlib.sha256(np.ascontiguousarray(jobs.jobs).tobytes())
    digest.update(LabelBook(jobs.table).codes.tobytes())
    return digest.hexdigest()[:16]
