"""Nodes with their GPUs, and the GPUs in use, from ``sinfo``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mirage.slurm.text.machine import gpus_of_gres
from mirage.slurm_words.absent import text_of

FIELD = "\x1f"
_NAMES = ("NodeList", "StateLong", "Gres", "GresUsed", "Partition")
GPU_NODES_COMMAND = (
    "sinfo", "--noheader", "--all", "--Node", "-O", ",".join(f"{name}:{FIELD}" for name in _NAMES),
)  # fmt: skip
"""One line per node and partition."""

_SILENT = ("unknown", "future", "inval", "no_respond")
_UNUSABLE = ("down", "drain", "fail", "error", "power", "maint", "reboot", "blocked", *_SILENT)
_UNUSABLE_SIGNS = "$^"
"""sinfo marks nodes with them that are in maintenance or rebooted, while jobs still run there."""

_TYPE = re.compile(r"(?:^|,)gpu:([^:,()]*[^:,()\d][^:,()]*)")


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node and its GPUs.

    Attributes:
        state: Slurm's word, in lower case with its flags: ``idle``, ``reserved``, ``mixed*``.
        gpu_type: Type of its GPUs, ``gpu`` where Slurm names none; of several types the first.
        gpus: Number of its GPUs.
        used: GPUs that jobs hold.
        partitions: Partitions with this node.
    """

    name: str
    state: str
    gpu_type: str
    gpus: int
    used: int
    partitions: tuple[str, ...]

    @property
    def answers(self) -> bool:
        """Whether the node answers; after a restart of slurmctld its state is unknown."""
        return "*" not in self.state and not any(word in self.state for word in _SILENT)

    @property
    def usable(self) -> bool:
        """Whether jobs can start there; a reservation does not matter."""
        return self.answers and not any(word in self.state for word in (*_UNUSABLE, *_UNUSABLE_SIGNS))


def read_gpu_nodes(output: str) -> tuple[tuple[GpuNode, ...], tuple[str, ...]]:
    """The nodes in the output of ``GPU_NODES_COMMAND``, and the lines that cannot be read."""
    found: dict[str, tuple[str, str, str, list[str]]] = {}
    unreadable = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split(FIELD)]
        if cells == [""]:
            continue
        if len(cells) != len(_NAMES) + 1 or not cells[0]:
            unreadable.append(line[:200])
            continue
        name, state, gres, used, partition, _ = cells
        found.setdefault(name, (state.lower(), text_of(gres), text_of(used), []))[3].append(partition.rstrip("*"))
    nodes = tuple(
        GpuNode(name, state, gpu_type_of(gres), gpus_of_gres(gres), gpus_of_gres(used), tuple(partitions))
        for name, (state, gres, used, partitions) in found.items()
    )
    return nodes, tuple(unreadable)


def gpu_type_of(gres: str) -> str:
    """The type in ``gpu:h100:8(S:0-1)``; ``gpu`` where there is none."""
    found = _TYPE.search(gres)
    return found[1] if found else "gpu"
