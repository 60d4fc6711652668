"""Nodes, partitions and options from ``sinfo`` and ``scontrol``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.slurm.records import Machine, Node, SkippedRecords, SlurmPartition
from mirage.slurm_words.absent import text_of
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.numbers import count_of
from mirage.slurm_words.time_limits import limit_s
from mirage.slurm_words.tres import gres_gpus_per_node

FIELD = "\x1f"
NODES_COMMAND = (
    "sinfo",
    "--noheader",
    "--all",
    "--Node",
    "-o",
    FIELD.join(("%N", "%P", "%T", "%c", "%G", "%l", "%L", "%h", "%p", "%a")),
)
"""One line per node and partition, with the partition's limits, in one command."""

PARTITIONS_COMMAND = ("scontrol", "--oneliner", "--all", "show", "partition")
CONFIG_COMMAND = ("scontrol", "show", "config")

_CELLS = 10
_UNUSABLE = ("down", "drain", "fail", "error", "unknown", "power", "maint", "reserved", "resv", "reboot", "future",
             "inval", "blocked")  # fmt: skip
_UNUSABLE_SIGNS = "*$^"
"""sinfo marks nodes with them that do not respond, are in maintenance, or are rebooted."""

_HARMLESS_FLAGS = ("undrain", "dynamic_future", "reboot_canceled")
_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w:/().]*)=(\S*)")
_PRIVATE = re.compile(r"^\s*PrivateData\s*=\s*(\S.*?)\s*$", re.MULTILINE)
_OPTION = re.compile(r"^\s*([A-Za-z][\w/().\[\]-]*?)\s*=\s?(.*?)\s*$")


def read_nodes(output: str) -> tuple[Node, ...]:
    """Nodes in the output of ``NODES_COMMAND``: one line per node and partition."""
    return _nodes(read_rows(output)[0])


def read_rows(output: str) -> tuple[list[list[str]], SkippedRecords]:
    """The cells of every line of ``NODES_COMMAND``, and the lines that cannot be read."""
    rows, skipped = [], SkippedRecords()
    for line in output.split("\n"):
        cells = line.split(FIELD)
        if len(cells) == _CELLS and cells[0].strip():
            rows.append(cells)
        elif line.strip():
            skipped = skipped.and_one(line)
    return rows, skipped


def _nodes(lines: Iterable[list[str]]) -> tuple[Node, ...]:
    rows: dict[str, tuple[str, int, int, list[str]]] = {}
    for cells in lines:
        name, partition, state, cpus, gres, *_ = cells
        row = rows.setdefault(name, (state, count_of(cpus, 1), gpus_of_gres(gres), []))
        row[3].append(partition.rstrip("*"))
    return tuple(
        Node(name, *word_and_use(state), cpus, gpus, tuple(partitions))
        for name, (state, cpus, gpus, partitions) in rows.items()
    )


def word_and_use(state: str) -> tuple[str, bool]:
    """Slurm's word without its signs (``idle~``, ``mixed*``), and whether jobs can run there.

    scontrol and JSON print flags in place of signs: ``IDLE+CLOUD+POWERED_DOWN``, ``MIXED+NOT_RESPONDING``. A node that
    saves power is started for a job, and does not respond until it is. On a node in maintenance no further job starts
    while others run (``mixed$``), and on one to be rebooted when it is idle (``mixed@``) jobs do start (measured on
    22.05.8).
    """
    word = re.sub(r"[^a-z_+]", "", state.strip().lower())
    base, *flags = word.split("+")
    others = [flag for flag in flags if not flag.startswith("power")]
    saves_power = len(others) < len(flags)
    if ("not_responding" in flags and not saves_power) or any(sign in state for sign in _UNUSABLE_SIGNS):
        return word, False
    harmless = (*_HARMLESS_FLAGS, "reboot_requested") if base in ("mixed", "allocated") else _HARMLESS_FLAGS
    parts = [base, *(flag for flag in others if flag not in harmless)]
    return word, not any(bad in part for part in parts for bad in _UNUSABLE)


def read_partitions(output: str) -> tuple[SlurmPartition, ...]:
    """Partitions in the output of ``PARTITIONS_COMMAND``."""
    found = []
    for line in output.splitlines():
        row = pairs(line)
        if "PartitionName" in row:
            found.append(partition_of(row))
    return tuple(found)


def partition_of(row: Mapping[str, str]) -> SlurmPartition:
    """A partition from scontrol's pairs."""
    longest_s = limit_s(row.get("MaxTime", "UNLIMITED"))
    return SlurmPartition(
        name=row["PartitionName"],
        default=row.get("Default", "NO").upper() == "YES",
        max_time_s=UNLIMITED_S if longest_s == MISSING else longest_s,
        default_time_s=limit_s(row.get("DefaultTime", "NONE")),
        nodes=_hosts(row.get("Nodes", "")),
        priority_tier=count_of(row.get("PriorityTier", "1"), 1),
        whole_nodes=row.get("OverSubscribe", "").upper() == "EXCLUSIVE",
        down=row.get("State") in ("DOWN", "INACTIVE"),
    )


def pairs(line: str) -> dict[str, str]:
    """``Key=value`` pairs of a line of scontrol; the last one of a name counts."""
    return dict(_PAIR.findall(line))


def first_pairs(line: str) -> dict[str, str]:
    """``Key=value`` pairs of a line of scontrol; the first one of a name counts."""
    return dict(reversed(_PAIR.findall(line)))


def read_config(output: str) -> dict[str, str]:
    """Options in the output of ``CONFIG_COMMAND``, keys in lower case; empty ones left out."""
    options: dict[str, str] = {}
    for line in output.splitlines():
        found = _OPTION.match(line)
        if found and (value := text_of(found[2])):
            options[found[1].lower()] = value
    return options


def private_data(output: str) -> set[str] | None:
    """Words of ``PrivateData`` from ``sacctmgr show configuration``; None where it is missing."""
    found = _PRIVATE.search(output)
    return None if found is None else {word.strip().lower() for word in found[1].split(",")}


def read_machine(output: str) -> tuple[Machine, SkippedRecords]:
    """The machine in the output of ``NODES_COMMAND``, and the lines that could not be read."""
    lines, skipped = read_rows(output)
    nodes = _nodes(lines)
    found: dict[str, SlurmPartition] = {}
    for cells in lines:
        name = cells[1].rstrip("*")
        if name in found:
            continue
        longest_s = limit_s(cells[5])
        found[name] = SlurmPartition(
            name=name,
            default=cells[1].endswith("*"),
            max_time_s=UNLIMITED_S if longest_s == MISSING else longest_s,
            default_time_s=limit_s(cells[6]),
            nodes=tuple(node.name for node in nodes if name in node.partitions),
            priority_tier=count_of(cells[8], 1),
            whole_nodes=cells[7].upper() == "EXCLUSIVE",
            down=cells[9] in ("down", "inact"),
        )
    return Machine(nodes, tuple(found.values())), skipped


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hosts(text_of(text)))
    except ValueError:
        return ()


def gpus_of_gres(gres: str) -> int:
    """GPUs of a node in sinfo's or scontrol's list: ``gpu:h100:8(S:0-1)`` is 8."""
    return gres_gpus_per_node(re.sub(r"\([^)]*\)", "", text_of(gres)))
