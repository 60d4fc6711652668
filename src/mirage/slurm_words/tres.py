"""GPUs, CPUs, nodes and memory in Slurm's lists of resources (TRES, GRES, ``ReqMem``)."""

from __future__ import annotations

import re

from mirage.job_state import MISSING
from mirage.slurm_words.numbers import count_or_missing

_GPU = re.compile(r"(?:gres/|gres:)?gpu(?::[^=:,()]+)?[=:](\d+)(?:\([^)]*\))?")
_ONE_GPU = re.compile(r"(?:gres/|gres:)?gpu(?::[^=:,()]*[^=:,()\d][^=:,()]*)?(?:\([^)]*\))?")
"""A request without a count is for one (sbatch(1), ``--gres``)."""

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGTPE]?)([nc]?)", re.ASCII | re.IGNORECASE)
_MIB = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3, "e": 1024**4}

_PER_CPU_FLAG = 2**31
"""Some versions print the flag for memory per CPU within the number: ``2147486448Mn`` is 2800 MiB of each CPU."""

_LARGEST = 2**40


def tres_count(tres: str, name: str) -> int:
    """The count of a resource in ``cpu=64,mem=62.50G,node=8``, else ``MISSING``."""
    for entry in tres.split(","):
        key, _, value = entry.partition("=")
        if key == name:
            return count_or_missing(value)
    return MISSING


def tres_gpus(tres: str) -> int:
    """GPUs in a TRES list; ``MISSING`` where it is empty.

    ``gres/gpu=2,gres/gpu:v100=2`` is 2: the untyped entry is the sum of the typed ones. Without it the typed ones are
    added.
    """
    if not tres:
        return MISSING
    typed = 0
    for entry in tres.split(","):
        key, _, value = entry.partition("=")
        if key == "gres/gpu":
            return max(count_or_missing(value), 0)
        if key.startswith("gres/gpu:"):
            typed += max(count_or_missing(value), 0)
    return typed


def gres_gpus_per_node(gres: str) -> int:
    """GPUs per node in an old GRES list: ``gpu:2``, ``gres:gpu:8``, ``gpu:tesla:2(S:0)``.

    ``gpu`` and ``gpu:tesla`` are one.
    """
    return sum(map(_gpus_of_entry, gres.split(",")))


def _gpus_of_entry(entry: str) -> int:
    if counted := _GPU.fullmatch(entry):
        return max(count_or_missing(counted[1]), 0)
    return int(_ONE_GPU.fullmatch(entry) is not None)


def gpus_of(tres: str, nodes: int, tasks: int, per_node: str, per_job: str, per_task: str) -> int:
    """Total GPUs of a job, allocated or requested.

    ``gres/gpu=8`` and ``gres:gpu:8`` mean the same. The TRES contain GPUs only if ``AccountingStorageTRES`` does, which
    is not the default; if not, those requested for the whole job count first (22.05.8).
    """
    return (
        max(tres_gpus(tres), 0)
        or gres_gpus_per_node(per_job)
        or gres_gpus_per_node(per_node) * max(nodes, 1)
        or gres_gpus_per_node(per_task) * max(tasks, 1)
    )


def memory_mib(text: str) -> int:
    """Memory in MiB of ``16G``, or of a number of MiB; ``MISSING`` for any other text.

    A request below 1 MiB counts as 1 MiB.
    """
    found = _SIZE.fullmatch(text.strip())
    return MISSING if found is None or found[3] else _size(found)


def _size(found: re.Match[str]) -> int:
    size = float(found[1]) * _MIB[found[2].lower()]
    return max(round(size), int(size > 0)) if size < _LARGEST else MISSING


def tres_memory_mib(tres: str) -> int:
    """Memory in a list of resources, ``cpu=64,mem=62.50G,node=8``; ``MISSING`` for none."""
    for entry in tres.split(","):
        key, _, value = entry.partition("=")
        if key == "mem":
            return memory_mib(value)
    return MISSING


def requested_mib(text: str, nodes: int, cpus: int) -> int:
    """Memory of a whole job from sacct's ``ReqMem``; 0 for all memory of its nodes.

    ``4Gn`` is per node, ``2Gc`` per CPU; without such a letter, as since 21.08, it is for the whole job.

    Args:
        text: The cell.
        nodes: Nodes of the job; below 1 where unknown.
        cpus: CPUs of the job; below 1 where unknown.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or (size := _size(found)) == MISSING:
        return MISSING
    per = found[3].lower()
    if size >= _PER_CPU_FLAG and per:
        size, per = size - _PER_CPU_FLAG, "c"
    pieces = {"": 1, "n": nodes, "c": cpus}[per]
    if size and pieces < 1:
        return MISSING
    return size * max(pieces, 1)
