"""GPUs, CPUs and nodes in Slurm's lists of resources (TRES, GRES)."""

from __future__ import annotations

import re

from mirage.job_state import MISSING
from mirage.slurm_words.numbers import count_or_missing

_GPU = re.compile(r"(?:gres/|gres:)?gpu(?::[^=:,()]+)?[=:](\d+)(?:\([^)]*\))?")


def tres_count(tres: str, name: str) -> int:
    """The count of a resource in ``cpu=64,mem=62.50G,node=8``, else ``MISSING``."""
    for entry in tres.split(","):
        key, _, value = entry.partition("=")
        if key == name:
            return count_or_missing(value)
    return MISSING


def tres_gpus(tres: str) -> int:
    """GPUs in a TRES list; ``MISSING`` where it is empty.

    ``gres/gpu=2,gres/gpu:v100=2`` is 2: the untyped entry is the sum of the typed ones. Without it the typed
    ones are added up.
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
    """GPUs per node in a GRES list of old: ``gpu:2``, ``gres:gpu:8``, ``gpu:tesla:2(S:0)``."""
    return sum(max(count_or_missing(entry[1]), 0) for entry in map(_GPU.fullmatch, gres.split(",")) if entry)


def gpus_of(tres: str, gres: str, nodes: int) -> int:
    """GPUs of a job in all, allocated or asked for.

    ``gres/gpu=8`` and ``gres:gpu:8`` count alike.
    """
    allocated = tres_gpus(tres)
    if allocated > 0:
        return allocated
    return gres_gpus_per_node(gres) * max(nodes, 1)
