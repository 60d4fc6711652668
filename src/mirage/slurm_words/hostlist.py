"""Slurm's host lists: ``d09n08s[01-02],d13n[03,05,07-08,16]`` names 7 hosts."""

from __future__ import annotations

import re
from itertools import product

from mirage.errors import shown
from mirage.slurm_words.absent import is_absent

_TOO_MANY = 10**9
_MOST_EXPANDED = 1 << 20  # Slurm has at most 65,536 nodes
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")
_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")


def count_hosts(hostlist: str) -> int:
    """The number of hosts a list names; 0 for ``None assigned`` and similar words.

    Several groups in one name multiply: ``rack[0-1]n[1-4]`` names 8.

    Raises:
        ValueError: Brackets do not match, a name is empty, a range is descending, or the list is far too long.
    """
    if is_absent(hostlist):
        return 0
    count = sum(_count_one(name, hostlist) for name in _OUTSIDE_BRACKETS.split(hostlist.strip()))
    if count >= _TOO_MANY:
        raise ValueError(f"the host list {shown(hostlist)} names {count} hosts")
    return count


def expand_hosts(hostlist: str) -> list[str]:
    """The hosts a list names, in its order, with the leading zeros of their numbers.

    Raises:
        ValueError: As ``count_hosts``, or they are more than a million.
    """
    count = count_hosts(hostlist)
    if count == 0:
        return []
    if count > _MOST_EXPANDED:
        raise ValueError(f"the host list {shown(hostlist)} names {count:,} hosts; at most {_MOST_EXPANDED:,} are read")
    return [host for name in _OUTSIDE_BRACKETS.split(hostlist.strip()) for host in _expand_one(name)]


def _expand_one(name: str) -> list[str]:
    pieces = _GROUP.split(name)  # every second piece was in brackets
    choices = [_numbers(piece) if k % 2 else [piece] for k, piece in enumerate(pieces)]
    return ["".join(choice) for choice in product(*choices)]


def _numbers(group: str) -> list[str]:
    numbers = []
    for part in group.split(","):
        first, _, last = part.partition("-")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last or first) + 1)]
    return numbers


def _count_one(name: str, hostlist: str) -> int:
    plain = _GROUP.sub("", name)
    if not name or "[" in plain or "]" in plain:
        raise ValueError(f"{shown(hostlist)} is not a host list")
    count = 1
    for group in _GROUP.findall(name):
        count *= sum(_count_range(part, hostlist) for part in group.split(","))
    return count


def _count_range(part: str, hostlist: str) -> int:
    bounds = _RANGE.fullmatch(part)
    if bounds is None:
        raise ValueError(f"{shown(part)} is not a range in the host list {shown(hostlist)}")
    first = int(bounds[1])
    last = int(bounds[2]) if bounds[2] else first
    if last < first:
        raise ValueError(f"the range {shown(part)} of the host list {shown(hostlist)} is descending")
    return last - first + 1
