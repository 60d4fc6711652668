"""EASY backfill in plain Python: the reference that ``simulator.py`` compares with.

A heap of true ends, running jobs sorted by the end of their limit, and the same shortcut as ours: nothing is computed
if no job has ended. It has one pool of processors and no other feature.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush


def plain_easy(
    submit_s: Sequence[int], run_s: Sequence[int], limit_s: Sequence[int], size: Sequence[int], processors: int
) -> list[int]:
    """Start of every job; jobs are in order of submission and fit the machine."""
    jobs = len(submit_s)
    lasts_s = [min(run, limit) for run, limit in zip(run_s, limit_s)]
    starts_s = [-1] * jobs
    ends: list[tuple[int, int]] = []  # heap of (true end, job)
    running: list[tuple[int, int]] = []  # (end of the limit, job), sorted
    queue: list[int] = []
    free = processors
    arrived = 0
    shadow_s = extra = 0  # of the blocked head

    def start(job: int) -> None:
        nonlocal free
        free -= size[job]
        starts_s[job] = now_s
        heappush(ends, (now_s + lasts_s[job], job))
        insort(running, (now_s + limit_s[job], job))

    def find_shadow(head: int) -> None:
        nonlocal shadow_s, extra
        level = free
        for k, (end_s, job) in enumerate(running):
            level += size[job]
            if level >= size[head] and (k + 1 == len(running) or running[k + 1][0] > end_s):
                shadow_s, extra = end_s, level - size[head]
                return

    def backfill(first: int) -> None:
        nonlocal extra
        remaining = queue[:first]
        for place in range(first, len(queue)):
            job = queue[place]
            if size[job] <= free:
                if now_s + limit_s[job] <= shadow_s:
                    start(job)
                    continue
                if size[job] <= extra:
                    extra -= size[job]
                    start(job)
                    continue
            remaining.append(job)
        queue[:] = remaining

    while arrived < jobs or ends:
        now_s = min(ends[0][0] if ends else submit_s[arrived], submit_s[arrived] if arrived < jobs else ends[0][0])
        ended = not queue  # without a blocked head there is no shadow
        known = len(queue)
        while ends and ends[0][0] <= now_s:
            _, job = heappop(ends)
            free += size[job]
            del running[bisect_left(running, (starts_s[job] + limit_s[job], job))]
            ended = True
        while arrived < jobs and submit_s[arrived] <= now_s:
            queue.append(arrived)
            arrived += 1
        if ended:
            heads = 0
            while heads < len(queue) and size[queue[heads]] <= free:
                start(queue[heads])
                heads += 1
            del queue[:heads]
            if queue:
                find_shadow(queue[0])
                backfill(1)
        else:
            backfill(known)
    return starts_s
