"""Request of a submission to the simulated Slurm, or sbatch's message that rejects it.

Rejections are those of a cluster with ``EnforcePartLimits=ALL``; on others sbatch accepts jobs that never start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mirage.duration import HOUR_S, MINUTE_S, parse_limit_s
from mirage.errors import ConfigurationError, SlurmRefused
from mirage.job_state import MISSING
from mirage.lab.virtual.program import SIGNALS
from mirage.sim.cluster import Cluster
from mirage.sim.kernel.arrays import AFTER_ANY, AFTER_OK, AFTER_START, NO_JOB, WHOLE_NODE
from mirage.slurm.records import Submission
from mirage.slurm.sbatch_options import parse_sbatch, refuse_unit, to_argv
from mirage.slurm.text.batch_script import directives
from mirage.slurm_words.numbers import count_of
from mirage.slurm_words.timestamps import instant_s, next_instant_s
from mirage.slurm_words.tres import gres_gpus_per_node, memory_mib

DEFAULT_TIME_S = HOUR_S
DEFAULT_NICE = 100
"""Nice value of ``--nice`` without a number (sbatch(1))."""

AFTER = {"after": AFTER_START, "afterany": AFTER_ANY, "afterok": AFTER_OK}

_NODE_COUNT = re.compile(r"\d+[km]?(-\d+[km]?)?", re.ASCII | re.IGNORECASE)

INVALID_PARTITION = "Invalid partition name specified"
INVALID_LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"
TOO_MANY_NODES = "Node count specification invalid"
UNAVAILABLE = "Requested node configuration is not available"
INVALID_QOS = "Invalid qos specification"
DEPENDENCY = "Job dependency problem"
INVALID_ARRAY = "Invalid job array specification"
"""The answer of a cluster without arrays (``MaxArraySize=0``)."""


@dataclass(frozen=True, slots=True)
class StartCondition:
    """Condition for which a job waits: none, a time, one job.

    Attributes:
        begin_s: The earliest start.
        job: Slurm's number of the job; ``NO_JOB`` for none.
        kind: One of ``AFTER``; ``word`` is its name.
    """

    begin_s: int = MISSING
    job: int = NO_JOB
    kind: int = AFTER_ANY
    word: str = "afterany"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A parsed submission.

    Attributes:
        partition: Its index in the cluster's list.
        gpus: Per node, ``WHOLE_NODE`` if the job gets whole nodes.
        cpus: Per node.
        warning_s: Time before its limit when the job is sent ``warning``; ``MISSING`` for never.
    """

    name: str
    comment: str
    account: str
    partition: int
    qos: str
    nodes: int
    gpus: int
    cpus: int
    limit_s: int
    nice: int
    held: bool
    wait: StartCondition
    warning: str = ""
    warning_s: int = MISSING


def read_request(
    submission: Submission, cluster: Cluster, now_s: int, *, known: Callable[[int], bool], first_task: bool = False
) -> BatchRequest:
    """Parse a submission: its options override the ``#SBATCH`` lines of its script.

    Args:
        known: Whether a job of this number still matters to waiting jobs; others ended long ago.
        first_task: Read an array as its first task; otherwise arrays are refused.

    Raises:
        SlurmRefused: If sbatch would reject it.
    """
    given = _options(submission)
    if "array" in given and not first_task:
        refuse(INVALID_ARRAY)
    try:
        partition = _partition(given, cluster)
        default_s = min(DEFAULT_TIME_S, cluster.partitions[partition].max_limit_s)
        refuse_unit("--time", given.get("time"))
        limit_s = parse_limit_s(given.get("time") or str(default_s // MINUTE_S))
    except ConfigurationError:
        refuse("Invalid --time specification", by_sbatch=True)
    nodes, gpus, cpus = _size(given, cluster)
    _admit(cluster, partition, limit_s, nodes, gpus, cpus)
    qos = given.get("qos") or ""
    if qos and qos != "normal" and qos not in cluster.qos_factors:
        refuse(INVALID_QOS)
    if given.get("mem") and memory_mib(given["mem"] or "") == MISSING:
        refuse("Invalid --mem specification", by_sbatch=True)
    warning, _, lead = (given.get("signal") or "").rpartition(":")[2].partition("@")
    warning = warning.removeprefix("SIG")
    if warning and warning not in SIGNALS and not warning.isdecimal():
        refuse("Invalid --signal specification", by_sbatch=True)
    return BatchRequest(
        name=given.get("job-name") or Path(submission.script).name,
        comment=given.get("comment") or "",
        account=given.get("account") or "",
        partition=partition,
        qos=qos,
        nodes=nodes,
        gpus=gpus,
        cpus=cpus,
        limit_s=limit_s,
        nice=count_of(given.get("nice", "0") or str(DEFAULT_NICE)),
        held="hold" in given,
        wait=read_wait(given.get("begin") or "", given.get("dependency") or "", now_s, known),
        warning=warning,
        warning_s=count_of(lead, 60) if warning else MISSING,
    )


def read_wait(begin: str, dependency: str, now_s: int, known: Callable[[int], bool]) -> StartCondition:
    """Returns the present meaning of ``--begin`` and ``--dependency``, without met conditions.

    Raises:
        SlurmRefused: One cannot be read, or there is more than one job to wait for.
    """
    begin_s = read_begin(begin, now_s) if begin else MISSING
    waits: list[StartCondition] = []
    for part in filter(None, dependency.split(",")):
        word, *jobs = part.split(":")
        numbers = [job.partition("+")[0] for job in jobs]
        if word == "singleton":
            refuse(f"{DEPENDENCY} (a simulated job waits for a job by its number, not for its name)")
        if word not in AFTER or not numbers or not all(number.isdecimal() for number in numbers):
            refuse(DEPENDENCY)
        waits += [StartCondition(begin_s, int(number), AFTER[word], word) for number in numbers if known(int(number))]
    if len(waits) > 1:
        refuse(f"{DEPENDENCY} (a simulated job waits for one other at most)")
    return waits[0] if waits else StartCondition(begin_s)


def read_begin(text: str, now_s: int) -> int:
    """Parses ``now+1hour``, ``2026-01-31T12:00:00``, ``16:30``, ``uts17`` into seconds.

    Raises:
        SlurmRefused: The text has none of these forms.
    """
    try:
        return next_instant_s(text, now_s)
    except ConfigurationError:  # Slurm also takes a number
        pass
    found_s = instant_s(text.removeprefix("uts"))
    if found_s == MISSING:
        refuse("Invalid --begin specification", by_sbatch=True)
    return found_s


def refuse(why: str, *, by_sbatch: bool = False) -> NoReturn:
    """Reject a submission.

    Args:
        by_sbatch: Whether sbatch itself rejects, before it calls the controller.
    """
    words = why if by_sbatch else f"Batch job submission failed: {why}"
    raise SlurmRefused("sbatch failed with status 1", f"sbatch: error: {words}")


def _options(submission: Submission) -> Mapping[str, str | None]:
    try:
        script = Path(submission.directory, submission.script).read_bytes()
        return {**directives(script), **parse_sbatch(to_argv(submission.options))[0]}
    except OSError:
        refuse(f"Unable to open file {submission.script}", by_sbatch=True)
    except ConfigurationError as error:
        refuse(str(error), by_sbatch=True)


def _partition(given: Mapping[str, str | None], cluster: Cluster) -> int:
    names = [partition.name for partition in cluster.partitions]
    first = (given.get("partition") or names[0]).partition(",")[0]
    if first not in names:
        raise SlurmRefused(
            "sbatch failed with status 1",
            f"sbatch: error: invalid partition specified: {first}\n"
            f"sbatch: error: Batch job submission failed: {INVALID_PARTITION}",
        )
    return names.index(first)


def _size(given: Mapping[str, str | None], cluster: Cluster) -> tuple[int, int, int]:
    """Returns nodes, and GPUs and CPUs per node."""
    if given.get("nodes") and not _NODE_COUNT.fullmatch(given["nodes"] or ""):
        refuse(f'"{given["nodes"]}" is not a valid node count', by_sbatch=True)
    least, _, most = (given.get("nodes") or "").partition("-")
    if most and count_of(most) < count_of(least):
        refuse(f"Maximum node count {most} is less than minimum node count {least}", by_sbatch=True)
    tasks = count_of(given.get("ntasks") or "0")
    of_node = count_of(given.get("ntasks-per-node") or "0")
    nodes = count_of(given.get("nodes") or "0") or -(-tasks // of_node if tasks and of_node else -1)
    of_node = of_node or -(-max(tasks, 1) // nodes)
    cpus = max(of_node, 1) * count_of(given.get("cpus-per-task") or "1", 1)
    if not cluster.shared_nodes or ("exclusive" in given and given["exclusive"] is None):
        return nodes, WHOLE_NODE, max(cpus, 1)
    gpus = count_of((given.get("gpus-per-node") or "0").rpartition(":")[2])
    gpus = gpus or gres_gpus_per_node(given.get("gres") or "")
    gpus = gpus or -(-count_of((given.get("gpus") or "0").rpartition(":")[2]) // nodes)
    return nodes, gpus, max(cpus, 1)


def _admit(cluster: Cluster, partition: int, limit_s: int, nodes: int, gpus: int, cpus: int) -> None:
    where = cluster.partitions[partition]
    if limit_s > where.max_limit_s or limit_s < 1:
        refuse(INVALID_LIMIT)
    groups = cluster.groups_of(where)
    most = sum(group.count for group in groups)
    if not 1 <= nodes <= (most if where.max_nodes is None else min(most, where.max_nodes)):
        refuse(TOO_MANY_NODES)
    if nodes > sum(g.count for g in groups if not cluster.shared_nodes or (g.gpus >= gpus and g.cpus >= cpus)):
        refuse(UNAVAILABLE)
