"""Gavel's placement of workers: larger jobs first, on the first servers with free GPUs.

A job stays on its GPUs if no larger job took them. Jobs are not packed and not moved, so they may be spread over more
servers than they need (the scheduler of Narayanan et al., OSDI'20, and its copy in Sia's simulator).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def first_fit(
    wanted: Iterable[tuple[int, int, int]],
    held: Mapping[int, Mapping[int, int]],
    free: list[int],
    servers: Sequence[Sequence[int]],
) -> dict[int, dict[int, int]]:
    """Server → GPUs of every job.

    Args:
        wanted: Jobs with their kind of server and their GPUs; among jobs of one size, the first in order chooses first.
        held: Present GPUs of jobs, on servers of the wanted kind.
        free: Free GPUs of each server; updated in place.
        servers: Servers of each kind, in the order in which they are filled.
    """
    places: dict[int, dict[int, int]] = {}
    queue = sorted(wanted, key=lambda entry: -entry[2])
    for size in dict.fromkeys(gpus for _, _, gpus in queue):
        same = [entry for entry in queue if entry[2] == size]
        for job, _, _ in same:
            before = held.get(job)
            if before and all(free[server] >= gpus for server, gpus in before.items()):
                places[job] = dict(before)
                _take(free, before)
        for job, kind, gpus in same:
            if job not in places:
                places[job] = _first_free(free, servers[kind], gpus)
                _take(free, places[job])
    return places


def _first_free(free: Sequence[int], servers: Sequence[int], gpus: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for server in servers:
        taken = min(gpus, free[server])
        if taken:
            found[server] = taken
            gpus -= taken
    return found


def _take(free: list[int], places: Mapping[int, int]) -> None:
    for server, gpus in places.items():
        free[server] -= gpus
