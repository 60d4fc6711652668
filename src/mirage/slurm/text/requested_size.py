"""Size of a job, from the options of sbatch.

Nodes, GPUs and CPUs of each, time limit and partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.duration import format_duration, parse_limit_s
from mirage.errors import ConfigurationError, UnknownName
from mirage.slurm.records import Machine, SlurmPartition
from mirage.slurm.sbatch_options import Chosen
from mirage.slurm_words.numbers import count_of, signed
from mirage.slurm_words.tres import gres_gpus_per_node

WHOLE = -1

DEFAULT_NICE = 100
"""The nice value of ``--nice`` without a number (sbatch(1))."""

NOT_WEIGHED = {
    "array": "it is an array: this is its first task",
    "dependency": "forecast as if its dependency were satisfied",
    "hold": "forecast as if it were not held",
    "deadline": "its deadline is ignored",
    "time-min": "forecast with its whole limit, not with its --time-min",
    "reservation": "reservations are ignored",
    "licenses": "licences are ignored",
    "constraint": "its constraints are ignored",
    "nodelist": "it requests nodes by name, which is ignored",
    "exclude": "it excludes nodes by name, which is ignored",
    "switches": "forecast as if any switches would do",
    "contiguous": "forecast as if its nodes need not be contiguous",
    "core-spec": "cores that it reserves for the system are ignored",
    "thread-spec": "threads that it reserves for the system are ignored",
    "gpus-per-socket": "GPUs for each socket are ignored",
    "sockets-per-node": "the layout of sockets and cores is ignored",
    "cores-per-socket": "the layout of sockets and cores is ignored",
    "threads-per-core": "the layout of sockets and cores is ignored",
    "extra-node-info": "the layout of sockets and cores is ignored",
    "tmp": "disk space of nodes is ignored",
    "mem": "memory is ignored",
    "mem-per-cpu": "memory is ignored",
    "mem-per-gpu": "memory is ignored",
    "qos": "the limits of its QOS are ignored",
}
"""Options that a forecast from the queue cannot take into account, and what it does instead."""

_OF_SHARED_NODES = (
    "core-spec", "thread-spec", "gpus-per-socket", "sockets-per-node", "cores-per-socket", "threads-per-core",
    "extra-node-info", "mem", "mem-per-cpu", "mem-per-gpu",
)  # fmt: skip
"""Those that matter only where jobs share nodes."""


@dataclass(frozen=True, slots=True)
class RequestedSize:
    """The resources that a job requests.

    Attributes:
        partitions: The partitions it may run in; at least one.
        gpus: Per node; −1 where the job gets whole nodes.
        cpus: Per node; −1 where the job gets whole nodes.
        remarks: What is requested and ignored, in words.
        qos: Its QOS; empty for the user's default.
        nice: What the user subtracts from its priority.
        begin: Its earliest start, as sbatch takes it; empty for none.
    """

    nodes: int
    limit_s: int
    partitions: tuple[str, ...]
    gpus: int = WHOLE
    cpus: int = WHOLE
    remarks: tuple[str, ...] = ()
    qos: str = ""
    nice: int = 0
    begin: str = ""


def requested_size(given: Chosen, machine: Machine, shared: bool) -> RequestedSize:
    """The size that sbatch derives from options.

    Args:
        given: Long name → value.
        machine: The cluster's machine, for what the options leave open.
        shared: Whether jobs may share nodes.

    Raises:
        ConfigurationError: The limit cannot be read, or exceeds the limit of each of its partitions.
        UnknownName: There is no such partition.
    """
    places = _partitions(given.get("partition"), machine)
    limit_s = parse_limit_s(given["time"] or "") if given.get("time") else _default_s(places[0])
    places = _that_take(places, limit_s)
    here = [node for node in machine.nodes if places[0].name in node.partitions]
    most_cpus, most_gpus = max((n.cpus for n in here), default=1), max((n.gpus for n in here), default=0)
    nodes, cpus, gpus = _counts(given, max(most_cpus, 1), max(most_gpus, 1))
    alone = not shared or places[0].whole_nodes or ("exclusive" in given and given["exclusive"] is None)
    ignored = [name for name in NOT_WEIGHED if name in given and (shared or name not in _OF_SHARED_NODES)]
    gres = (given.get("gres") or "").split(",")
    remarks = [NOT_WEIGHED[name] for name in ignored]
    remarks += [f"gres {word} is ignored" for word in gres if word and not gres_gpus_per_node(word)]
    if "-" in (requested := given.get("nodes") or ""):
        remarks.append(f"forecast with the fewest of the requested nodes, {nodes} of {requested}")
    return RequestedSize(
        nodes,
        limit_s,
        tuple(place.name for place in places),
        WHOLE if alone else -(-gpus // nodes),
        WHOLE if alone else max(-(-cpus // nodes), 1),
        tuple(dict.fromkeys(remarks)),
        given.get("qos") or "",
        _nice(given),
        given.get("begin") or "",
    )


def _nice(given: Chosen) -> int:
    """What is subtracted from the priority; 100 for the option without a number, as in sbatch."""
    return signed(given["nice"] or str(DEFAULT_NICE)) if "nice" in given else 0


def _counts(given: Chosen, most_cpus: int, most_gpus: int) -> tuple[int, int, int]:
    """Nodes, and CPUs and GPUs in total."""
    requested = count_of(given.get("nodes") or "0")
    a_node = count_of(given.get("ntasks-per-node") or "0")
    tasks = count_of(given.get("ntasks") or "0") or max(requested, 1) * max(a_node, 1)
    of_task = _last(given.get("gpus-per-task")) or gres_gpus_per_node(given.get("tres-per-task") or "")
    in_all = _last(given.get("gpus")) or of_task * tasks
    of_gpu = count_of(given.get("cpus-per-gpu") or "0")
    cpus = max(tasks * count_of(given.get("cpus-per-task") or "1", 1), in_all * of_gpu)
    per_node = _last(given.get("gpus-per-node")) or gres_gpus_per_node(given.get("gres") or "")
    needed = (requested, -(-tasks // a_node) if a_node else 1, 1)
    nodes = requested or max(*needed, -(-cpus // most_cpus), -(-in_all // most_gpus))
    gpus = in_all or per_node * nodes
    return nodes, max(cpus, gpus * of_gpu, nodes * count_of(given.get("mincpus") or "0")), gpus


def _last(gpus: str | None) -> int:
    """The count of ``4``, ``a100:4`` or ``a100:2,h100:2``."""
    return sum(count_of(word.rpartition(":")[2]) for word in (gpus or "0").split(","))


def _partitions(listed: str | None, machine: Machine) -> list[SlurmPartition]:
    known = {partition.name: partition for partition in machine.partitions}
    if not known:
        raise ConfigurationError("the cluster shows no partition; see `sinfo --all`")
    if listed:
        for name in listed.split(","):
            if name not in known:
                raise UnknownName("partition", name, list(known))
        return [known[name] for name in listed.split(",")]
    return [next((one for one in machine.partitions if one.default), machine.partitions[0])]


def _that_take(places: Sequence[SlurmPartition], limit_s: int) -> list[SlurmPartition]:
    taking = [place for place in places if limit_s <= place.max_time_s]
    if not taking:
        longest = ", ".join(f"{place.name} takes {format_duration(place.max_time_s)} at most" for place in places)
        raise ConfigurationError(f"a limit of {format_duration(limit_s)} is too long: {longest}")
    return taking


def _default_s(partition: SlurmPartition) -> int:
    return partition.default_time_s if partition.default_time_s > 0 else partition.max_time_s
