"""Resources of a PBS job: the hosts that it ran on, and the resources that it requested.

PBS Professional and OpenPBS request chunks (``select=2:ncpus=32:ngpus=4:mem=64gb+1:ncpus=4``), Torque requests nodes
(``nodes=2:ppn=6:gpus=1+node07:ppn=4``); both also know totals such as ``ncpus`` and ``mem``. Hosts are written as
``node1/0*32+node2/0*32`` (PBS), ``node1/0-31+node2/0-31`` or ``node1/0+node1/1`` (Torque).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.errors import LineError
from mirage.job_state import MISSING

_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_WORD_BYTES = 8
_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"(?:(?:(?:(\d+):)?(\d+):)?(\d+):)?(\d+)(?:\.\d*)?", re.ASCII)
_COUNT = re.compile(r"\d{1,12}", re.ASCII)
_LARGEST = 2**40
"""Counts and seconds from here on are mistakes."""


class Resources(NamedTuple):
    """Nodes, CPUs, GPUs and memory of a whole job; ``MISSING`` where unknown."""

    nodes: int = MISSING
    cpus: int = MISSING
    gpus: int = MISSING
    memory_mib: int = MISSING


def resources(attributes: Mapping[str, str]) -> Resources:
    """Returns the resources of a job: hosts as allocated, all else as requested.

    Raises:
        LineError: A count, a size or a chunk is none.
    """
    hosts, slots = _hosts(attributes)
    total = Resources(
        nodes=_count(attributes, "Resource_List.nodect"),
        cpus=_count(attributes, "Resource_List.ncpus"),
        gpus=_count(attributes, "Resource_List.ngpus"),
        memory_mib=_size_mib(attributes.get("Resource_List.mem", "")),
    )
    chunks = _chunks(attributes)
    per_process = _size_mib(attributes.get("Resource_List.pmem", ""))
    cpus = max(slots, total.cpus, chunks.cpus)
    memory_mib = total.memory_mib if total.memory_mib >= 0 else chunks.memory_mib
    if memory_mib < 0 <= per_process:
        memory_mib = per_process * max(cpus, 1)
    listed = attributes.get("exec_gpus", "")
    return Resources(
        nodes=next((count for count in (hosts, chunks.nodes, total.nodes) if count > 0), MISSING),
        cpus=cpus if cpus > 0 else MISSING,
        gpus=max(total.gpus, chunks.gpus, len(listed.split("+")) if listed else MISSING),
        memory_mib=memory_mib,
    )


def seconds(text: str) -> int:
    """Seconds of ``3600``, ``90:00``, ``100:00:00`` or ``4:04:00:00``; ``MISSING`` for none.

    Raises:
        LineError: The text is none of these.
    """
    word = text.strip()
    if not word:
        return MISSING
    if word.lower() in ("unlimited", "infinite", "infinity"):
        return UNLIMITED_S
    found = _CLOCK.fullmatch(word)
    units = (DAY_S, HOUR_S, MINUTE_S, 1)
    if found is None or any(len(part or "") > 12 for part in found.groups()):
        raise LineError("not a duration", repr(text), "PBS writes 04:00:00")
    total = sum(int(part or 0) * unit for part, unit in zip(found.groups(), units))
    if total >= _LARGEST:
        raise LineError("number out of range", repr(text), f"expected less than {_LARGEST} seconds")
    return total


def _hosts(attributes: Mapping[str, str]) -> tuple[int, int]:
    """Returns the number of hosts, and of CPU slots on them; 0 and 0 if they are not recorded."""
    listed = attributes.get("exec_host") or attributes.get("exec_host2") or ""
    if listed:
        names, slots = set(), 0
        for entry in listed.split("+"):
            host, _, places = entry.partition("/")
            names.add(host.strip("()").partition(":")[0])
            slots += sum(_slots(place) for place in places.split(","))
        return len(names), slots
    vnodes = (chunk.strip("()").partition(":")[0] for chunk in attributes.get("exec_vnode", "").split("+"))
    return len({vnode.partition("[")[0] for vnode in vnodes} - {""}), 0


def _slots(place: str) -> int:
    """Returns the CPU slots of ``0*32`` (32), ``0-31`` (32) or ``7`` (1)."""
    first, sign, count = place.partition("*")
    if sign:
        return int(count) if _COUNT.fullmatch(count) else 1
    first, sign, last = place.partition("-")
    if sign and _COUNT.fullmatch(first) and _COUNT.fullmatch(last):
        return max(int(last) - int(first) + 1, 1)
    return 1


def _chunks(attributes: Mapping[str, str]) -> Resources:
    """Returns the sums over the chunks of ``select``, or else over the nodes of ``nodes``."""
    select = attributes.get("Resource_List.select", "")
    requested = select or attributes.get("Resource_List.nodes", "")
    if not requested:
        return Resources()
    nodes = cpus = 0
    gpus = memory_mib = MISSING
    for chunk in requested.partition("#")[0].split("+"):
        first, *words = chunk.split(":")
        if select and "=" not in first and not _COUNT.fullmatch(first):
            raise LineError("not a chunk", f"{chunk!r} in select", "PBS writes 2:ncpus=32:mem=64gb")
        number = int(first) if _COUNT.fullmatch(first) else 1
        values = dict(word.split("=", 1) for word in ([first] if "=" in first else []) + words if "=" in word)
        nodes += number
        cpus += number * max(_count(values, "ncpus" if select else "ppn"), 1 if not select else 0)
        for name in ("ngpus",) if select else ("gpus",):
            if (each := _count(values, name)) >= 0:
                gpus = max(gpus, 0) + number * each
        if (each := _size_mib(values.get("mem", ""))) >= 0:
            memory_mib = max(memory_mib, 0) + number * each
    return Resources(nodes, cpus, gpus, memory_mib)


def _count(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "").strip()
    if not text:
        return MISSING
    if not _COUNT.fullmatch(text) or int(text) >= _LARGEST:
        raise LineError("not a count", f"{name} is {text!r}", "expected a whole number")
    return int(text)


def _size_mib(text: str) -> int:
    """Returns the MiB of ``128gb`` or ``16gw`` (words of eight bytes); a number counts bytes."""
    if not text.strip():
        return MISSING
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise LineError("not a size of memory", repr(text), "PBS writes 16gb")
    size = int(found[1]) * _BYTES[found[2].lower()] * (_WORD_BYTES if found[3].lower() == "w" else 1)
    mib = -(-size // 2**20)
    if mib >= _LARGEST:
        raise LineError("number out of range", repr(text), "check the unit")
    return mib
