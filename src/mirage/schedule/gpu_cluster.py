"""GPU clusters: groups of identical servers, their GPU types and pools."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ClusterError, UnknownName
from mirage.text_file import read_toml_file

TRAINING, INFERENCE = "training", "inference"
"""The two pools of the built-in clusters."""

_MOST_SERVERS, _MOST_GPUS = 1_000_000, 1_000
_LEAST_SPEED, _MOST_SPEED = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Identical servers.

    Attributes:
        name: Name of the group in messages and reports.
        gpu_type: Type of the GPUs; tables of measured speeds are found by it.
        servers: Number of servers.
        gpus_per_server: GPUs of each server.
        pool: The pool that owns them; servers are lent from pool to pool.
        speed: Work that one GPU does in a second, for jobs without measurements.
        gpus_for_one: GPUs of this type that a job gets for each GPU that it requests: 3 if three of these slower GPUs
            take the place of one.
    """

    name: str
    gpu_type: str
    servers: int
    gpus_per_server: int
    pool: str = TRAINING
    speed: float = 1.0
    gpus_for_one: int = 1

    def __post_init__(self) -> None:
        for what in ("name", "gpu_type", "pool"):
            if not getattr(self, what):
                raise ClusterError(f"server group {self.name!r}: {what} is empty; give a name")
        if self.servers < 1 or self.gpus_per_server < 1:
            raise ClusterError(
                f"server group {self.name!r}: {self.servers} servers of {self.gpus_per_server} GPUs; both are 1 or more"
            )
        if self.servers > _MOST_SERVERS or self.gpus_per_server > _MOST_GPUS:
            raise ClusterError(
                f"server group {self.name!r}: {self.servers:,} servers of {self.gpus_per_server:,} GPUs; there are at "
                f"most {_MOST_SERVERS:,} servers of {_MOST_GPUS:,} GPUs"
            )
        if not _LEAST_SPEED <= self.speed <= _MOST_SPEED:
            raise ClusterError(
                f"server group {self.name!r}: speed is {self.speed}; give a number from {_LEAST_SPEED} to "
                f"{_MOST_SPEED:g}"
            )
        if self.gpus_for_one < 1:
            raise ClusterError(f"server group {self.name!r}: gpus_for_one is {self.gpus_for_one}; give 1 or more")


@dataclass(frozen=True)
class GpuCluster:
    """A GPU cluster. Its servers are numbered from 0 in the order of its groups.

    Attributes:
        groups: The groups of servers.
    """

    groups: tuple[ServerGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ClusterError("a GPU cluster needs at least one group of servers; got none")
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            raise ClusterError(f"two server groups have the same name: {', '.join(names)}; rename one")

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The types of GPUs, in the order of the groups."""
        return tuple(dict.fromkeys(group.gpu_type for group in self.groups))

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """The pools, in the order of the groups."""
        return tuple(dict.fromkeys(group.pool for group in self.groups))

    @cached_property
    def gpu_type_of(self) -> Ints:
        """Number of the GPU type of every server, shape (servers,)."""
        return self._each([self.gpu_types.index(group.gpu_type) for group in self.groups])

    @cached_property
    def gpus_of(self) -> Ints:
        """GPUs of every server, shape (servers,)."""
        return self._each([group.gpus_per_server for group in self.groups])

    @cached_property
    def pool_of(self) -> Ints:
        """Number of the pool that every server belongs to, shape (servers,)."""
        return self._each([self.pools.index(group.pool) for group in self.groups])

    @cached_property
    def server_names(self) -> tuple[str, ...]:
        """Names of the servers: the group's name and a number from 1."""
        return tuple(f"{group.name}-{k}" for group in self.groups for k in range(1, group.servers + 1))

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return int(self.gpus_of.sum())

    def type_speeds(self) -> dict[str, float]:
        """Speed of a GPU of every type, for jobs without measurements.

        Raises:
            ClusterError: Two groups of one type have different speeds.
        """
        return self._of_type("speed")

    def gpus_for_one(self) -> Ints:
        """GPUs of every type that a job gets for each GPU that it requests, shape (types,).

        Raises:
            ClusterError: Two groups of one type have different numbers.
        """
        return np.array(list(self._of_type("gpus_for_one").values()), dtype=np.int64)

    def _of_type(self, name: str) -> dict[str, Any]:
        """What all groups of a GPU type have in common, by type, in the order of the types."""
        found: dict[str, Any] = {}
        for group in self.groups:
            value = getattr(group, name)
            if found.setdefault(group.gpu_type, value) != value:
                raise ClusterError(
                    f"GPU type {group.gpu_type!r} has {name} {found[group.gpu_type]} in one group and {value} in group "
                    f"{group.name!r}; give both groups the same, or another type"
                )
        return found

    def _each(self, of_group: Sequence[int]) -> Ints:
        of_server = np.repeat(np.array(of_group, dtype=np.int64), [group.servers for group in self.groups])
        of_server.setflags(write=False)
        return of_server


BUILTIN: Mapping[str, GpuCluster] = {
    "sia64": GpuCluster(
        (
            ServerGroup("aws", "aws", 6, 4),  # 4 T4 each
            ServerGroup("dgx-ext", "dgx-ext", 2, 8),  # 8 A100
            ServerGroup("rtx", "rtx", 3, 8),  # 8 RTX 2080 Ti
        )
    ),
    "pool128": GpuCluster((ServerGroup("gpu", "gpu", 16, 8),)),
    "philly7704": GpuCluster((ServerGroup("gpu", "gpu", 963, 8),)),
    "aryl7704": GpuCluster(
        (
            ServerGroup("training", "v100", 443, 8, TRAINING),
            ServerGroup("inference", "t4", 520, 8, INFERENCE, speed=1 / 3),
        )
    ),
}
"""Built-in clusters by name: Sia's 64 GPUs (SOSP'23), 128 GPUs in identical servers, and the GPU count of Aryl's two
clusters, once as one cluster of identical servers and once as two pools for training and inference."""


def gpu_cluster(name: str) -> GpuCluster:
    """A cluster by its built-in name, or from a TOML file.

    Raises:
        UnknownName: Neither a built-in name nor a file.
        ClusterError: The file does not describe a cluster.
    """
    if name in BUILTIN:
        return BUILTIN[name]
    if name.endswith(".toml") or os.sep in name or Path(name).is_file():
        return read_gpu_cluster(name)
    raise UnknownName("GPU cluster", name, [*BUILTIN, "FILE.toml"])


def read_gpu_cluster(path: str | os.PathLike[str]) -> GpuCluster:
    """A cluster from TOML: one table ``[[servers]]`` per group, with ``ServerGroup``'s keys.

    Raises:
        ClusterError: The file does not describe a cluster; the message names it.
        ConfigurationError: The file cannot be read.
    """
    declared = read_toml_file(path, f"give a TOML file or one of {', '.join(BUILTIN)}")
    groups = declared.get("servers")
    if not isinstance(groups, list) or not groups or set(declared) != {"servers"}:
        raise ClusterError(
            f"{path}: its keys are {sorted(declared)}; describe every server group in a table [[servers]]"
        )
    try:
        return GpuCluster(tuple(_read_group(group) for group in groups))
    except ClusterError as error:
        raise ClusterError(f"{path}: {error}") from error


_KINDS = {str: "a text", int: "a whole number", float: "a number"}


def _read_group(declared: Any) -> ServerGroup:
    kinds = {"name": str, "gpu_type": str, "servers": int, "gpus_per_server": int, "pool": str, "speed": float}
    kinds["gpus_for_one"] = int
    if not isinstance(declared, dict):
        raise ClusterError(f"servers is {declared!r}; write [[servers]] with two brackets")
    unknown = sorted(set(declared) - {f.name for f in fields(ServerGroup)})
    missing = [name for name in ("name", "gpu_type", "servers", "gpus_per_server") if name not in declared]
    if unknown or missing:
        raise ClusterError(
            f"server group {declared.get('name', '?')!r}: unknown {', '.join(unknown) or 'nothing'}, missing "
            f"{', '.join(missing) or 'nothing'}; the keys are {', '.join(kinds)}"
        )
    for name, value in declared.items():
        kind = (int, float) if kinds[name] is float else kinds[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ClusterError(f"server group {declared['name']!r}: {name} is {value!r}; give {_KINDS[kinds[name]]}")
    return ServerGroup(**declared)
