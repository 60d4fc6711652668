"""The cluster of a ``slurm.conf``: groups of equal nodes, and the partitions over them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage.duration import UNLIMITED_S, parse_duration_s
from mirage.errors import ClusterError, ConfigurationError, first_of, shown
from mirage.sim.cluster import UNDECLARED, Cluster, NodeGroup, Partition
from mirage.sim.slurm_conf.slurm_settings import option_lines, read_options
from mirage.slurm_words.hostlist import expand_hosts

Options = dict[str, str]

_WORD = re.compile(r"([A-Za-z]+)\s*=\s*(\"[^\"]*\"|\S+)")
_ABSENT = ("future", "down", "drain", "fail")
"""States in which a node is configured but cannot run jobs."""

_NOT_SIMULATED = ("MaxCPUsPerNode", "MaxCPUsPerSocket", "MinNodes", "QOS")
"""Options of partitions by which slurmctld starts other jobs."""


@dataclass(frozen=True, slots=True)
class _Node:
    """The properties that distinguish nodes: GPUs, cores, memory, and their partitions."""

    gpus: int
    cpus: int
    memory_mib: int | None
    partitions: tuple[bool, ...]


def cluster_from_slurm_conf(path: str | Path) -> Cluster:
    """The machine and partitions of a ``slurm.conf``.

    Nodes are shared GPU by GPU or core by core, unless ``SelectType`` is ``select/linear`` or every partition has
    ``OverSubscribe=EXCLUSIVE``. Jobs on shared nodes take memory, unless ``SelectTypeParameters`` leaves it out (by
    default it is ``CR_Core_Memory``); ``MaxMemPerNode`` and ``MaxMemPerCPU`` are not read. Nodes that are FUTURE, DOWN,
    DRAIN or FAIL, or in ``DownNodes``, are left out; partitions are UP, whatever their ``State``. The default partition
    is the first; limits and QOS are in the accounting database, not in the file.

    Args:
        path: The file; ``Include`` lines are followed.

    Raises:
        ConfigurationError: The file cannot be read, or a value in it.
        ClusterError: It describes no node, or a partition names nodes that are not described.
    """
    lines = option_lines(path)
    nodes = _nodes(path, lines)
    if not nodes and _blocks(lines, "nodename"):
        raise ClusterError(f"{path}: all its nodes are DOWN, DRAIN, FAIL or FUTURE; correct the State of some there")
    if not nodes:
        raise ClusterError(f"{path} has no NodeName line; name the slurm.conf of the controller, not a fragment")
    partitions = _blocks(lines, "partitionname")
    described = {host for hostlist in _blocks(lines, "nodename") for host in _hosts(path, hostlist)}
    names = _Names(path, nodes, described, _blocks(lines, "nodeset"))
    members = {name: names.members(name, options) for name, options in partitions.items()}
    if not (declared := bool(partitions)):
        partitions, members = {UNDECLARED.name: {}}, {UNDECLARED.name: set(nodes)}
    ordered = sorted(partitions, key=lambda name: not _is(partitions[name], "default", "yes"))
    exclusive = all(
        _is(options, "oversubscribe" if "oversubscribe" in options else "shared", "exclusive")
        for options in partitions.values()
    )
    common = read_options(path)
    shared = not exclusive and common.get("selecttype", "select/cons_tres").lower() != "select/linear"
    memory = shared and "memory" in common.get("selecttypeparameters", "CR_Core_Memory").lower()
    groups, of_partition = _grouped(path, nodes, [members[name] for name in ordered], memory)
    defaults = common if memory else None
    return Cluster(
        groups=tuple(groups),
        partitions=tuple(
            replace(_partition(path, name, partitions[name], own, defaults), declared=declared)
            for name, own in zip(ordered, of_partition)
            if own
        ),
        shared_nodes=shared,
    )


def shared_nodes_remark(path: str | Path, cluster: Cluster) -> str:
    """That older versions of Slurm share no nodes of a ``slurm.conf``; empty if they do.

    The default of ``SelectType`` is select/cons_tres since Slurm 23.11, before it is select/linear.

    Args:
        cluster: Its cluster.
    """
    if not cluster.shared_nodes or "selecttype" in read_options(path):
        return ""
    return (
        "jobs share the simulated nodes, but Slurm before 23.11 allocates whole nodes without SelectType; add the "
        "SelectType that `scontrol show config` prints"
    )


def closed_remark(path: str | Path, cluster: Cluster) -> str:
    """Which partitions of a ``slurm.conf`` are not UP but simulated as such; empty for none.

    Args:
        cluster: Its cluster.
    """
    declared = _blocks(option_lines(path), "partitionname")
    closed = [one.name for one in cluster.partitions if declared.get(one.name, {}).get("state", "UP").upper() != "UP"]
    return f"partitions that are DOWN, DRAIN or INACTIVE are simulated as UP: {first_of(closed)}" if closed else ""


def other_options_remark(path: str | Path, cluster: Cluster) -> str:
    """Which options of partitions of a ``slurm.conf`` are not simulated; empty for none.

    Args:
        cluster: Its cluster.
    """
    declared = _blocks(option_lines(path), "partitionname")
    used = {key for one in cluster.partitions for key in declared.get(one.name, {})}
    others = [option for option in _NOT_SIMULATED if option.lower() in used]
    return f"options of partitions that are not simulated: {', '.join(others)}" if others else ""


def _blocks(lines: Iterable[tuple[str, str]], key: str) -> dict[str, Options]:
    """Name → options of all lines of a kind, ``DEFAULT`` lines applied to later ones."""
    default: Options = {}
    blocks: dict[str, Options] = {}
    for found, text in lines:
        if found != key:
            continue
        options = {word.lower(): value.strip('"') for word, value in _WORD.findall(f"{key}={text}")}
        name = options.pop(key)
        if name.upper() == "DEFAULT":
            default.update(options)
        else:
            blocks[name] = {**default, **blocks.get(name, {}), **options}
    return blocks


def _nodes(path: str | Path, lines: list[tuple[str, str]]) -> dict[str, Options]:
    """Host → its options, of those that can run jobs."""
    nodes: dict[str, Options] = {}
    for hostlist, options in _blocks(lines, "nodename").items():
        if not options.get("state", "unknown").lower().startswith(_ABSENT):
            nodes |= dict.fromkeys(_hosts(path, hostlist), options)
    down = {host for hostlist in _blocks(lines, "downnodes") for host in _hosts(path, hostlist)}
    return {host: options for host, options in nodes.items() if host not in down}


def _hosts(path: str | Path, hostlist: str) -> list[str]:
    try:
        return expand_hosts(hostlist)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}; correct it there") from error


@dataclass(frozen=True, slots=True)
class _Names:
    """Resolves the names in a file to hosts.

    Attributes:
        nodes: Host → options, of those that can run jobs.
        described: Every host the file describes.
        sets: NodeSet → its options.
    """

    path: str | Path
    nodes: Mapping[str, Options]
    described: set[str]
    sets: Mapping[str, Options]

    def members(self, partition: str, options: Options) -> set[str]:
        """The hosts of a partition that can run jobs."""
        found: set[str] = set()
        for host in _hosts(self.path, options.get("nodes", "")):
            if host.upper() == "ALL":
                found |= set(self.nodes)
            elif host in self.sets:
                feature = self.sets[host].get("feature")
                for node, own in self.nodes.items() if feature else ():
                    if feature in own.get("feature", own.get("features", "")).split(","):
                        found.add(node)
                found |= set(_hosts(self.path, self.sets[host].get("nodes", "")))
            elif host in self.described:
                found.add(host)
            else:
                raise ClusterError(
                    f"{self.path}: partition {shown(partition)} names node {shown(host)}, "
                    "which no NodeName line describes"
                )
        return found & set(self.nodes)


def _grouped(
    path: str | Path, nodes: Mapping[str, Options], members: list[set[str]], memory: bool
) -> tuple[list[NodeGroup], list[tuple[str, ...]]]:
    """Groups of equal nodes, named after their first node, and the groups of each partition.

    Args:
        memory: Whether jobs take memory.
    """
    kinds: dict[_Node, list[str]] = {}
    for host, options in nodes.items():
        inside = tuple(host in hosts for hosts in members)
        try:
            kind = _Node(_gpus(options), _cpus(options), _memory_mib(options) if memory else None, inside)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: node {shown(host)}: {error}") from error
        kinds.setdefault(kind, []).append(host)
    groups = [NodeGroup(hosts[0], len(hosts), kind.gpus, kind.cpus, kind.memory_mib) for kind, hosts in kinds.items()]
    return groups, [
        tuple(group.name for group, kind in zip(groups, kinds) if kind.partitions[k]) for k in range(len(members))
    ]


def _gpus(options: Options) -> int:
    """GPUs of a node: ``Gres=gpu:h100:8,nvme:1`` has 8; ``gpu`` alone is one."""
    count = 0
    for gres in options.get("gres", "").split(","):
        kind, *rest = gres.split("(")[0].split(":")
        if kind.lower() == "gpu":
            last = rest[-1] if rest else "1"
            count += int(last) if last.isdecimal() else 1
    return count


def _cpus(options: Options) -> int:
    """Processors of a node, by ``CPUs`` or by sockets, cores and threads; one by default."""
    for given in ("CPUs", "Procs"):
        if given.lower() in options:
            return _whole(options, given)
    if "sockets" in options:
        sockets = _whole(options, "Sockets")
    else:
        sockets = _whole(options, "Boards") * _whole(options, "SocketsPerBoard")
    return sockets * _whole(options, "CoresPerSocket") * _whole(options, "ThreadsPerCore")


def _memory_mib(options: Options) -> int | None:
    """Memory of a node that jobs can have; None where the file does not give it."""
    if "realmemory" not in options:
        return None
    return max(_whole(options, "RealMemory") - _whole(options, "MemSpecLimit", "0"), 1)


_DEFAULT_MEMORY = {
    "DefMemPerNode": "default_memory_mib",
    "DefMemPerCPU": "default_memory_per_cpu_mib",
    "DefMemPerGPU": "default_memory_per_gpu_mib",
}


def _default_memory(options: Options, common: Options) -> dict[str, Any]:
    """Memory of a job that requests none, from its partition, else from the whole file.

    It is per node, per CPU or per GPU.
    """
    for declared in (options, common):
        for key, name in _DEFAULT_MEMORY.items():
            if (given := declared.get(key.lower())) is not None:
                unlimited = given.upper() == "UNLIMITED"
                return {} if unlimited or not (size := _whole(declared, key)) else {name: size}
    return {}


def _partition(
    path: str | Path, name: str, options: Options, groups: tuple[str, ...], common: Options | None
) -> Partition:
    """A partition; ``Priority``, of older files, replaces its tier and factor (22.05.8).

    Args:
        common: Options of the whole file, where jobs take memory.
    """
    limit = options.get("maxtime", "UNLIMITED")
    any_nodes = options.get("maxnodes", "UNLIMITED").upper() in ("UNLIMITED", "INFINITE")
    older = "Priority" if "priority" in options else ""
    try:
        return Partition(
            name,
            groups,
            tier=_whole(options, older or "PriorityTier"),
            job_factor=_decimal(options, older or "PriorityJobFactor"),
            max_limit_s=parse_duration_s(limit) if limit.upper() != "INFINITE" else UNLIMITED_S,
            max_nodes=None if any_nodes else _whole(options, "MaxNodes"),
            **({} if common is None else _default_memory(options, common)),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: partition {shown(name)}: {error}") from error


def _whole(options: Options, key: str, default: str = "1") -> int:
    """The whole number of an option, which the message names."""
    text = options.get(key.lower(), default)
    if not re.fullmatch(r"[+]?\d{1,18}", text, re.ASCII):
        raise ConfigurationError(f"{key}={shown(text)} is not a whole number of 0 or more; correct it there")
    return int(text)


def _decimal(options: Options, key: str, default: str = "1") -> float:
    """The finite number of an option, which the message names."""
    text = options.get(key.lower(), default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{key}={shown(text)} is not a number; correct it there")
    return number


def _is(options: Options, key: str, value: str) -> bool:
    return options.get(key, "").lower().startswith(value)
