"""GPU numbers for a log: concurrent placement rows on a server have distinct numbers."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from mirage.errors import ContractBroken

INTERVAL = np.dtype(
    [("server", np.int64), ("gpu", np.int64), ("job", np.int64), ("start_s", np.float64), ("end_s", np.float64)]
)


def numbered(segments: Any, seats: Any, segment_of_seat: Any, gpus_of: Any) -> Any:
    """INTERVAL records by server and start.

    Raises:
        ContractBroken: More GPUs of a server are held at one time than it has.
    """
    start_s, end_s = segments.start_s[segment_of_seat], segments.end_s[segment_of_seat]
    used = np.flatnonzero(end_s > start_s)
    rows: list[tuple[int, int, int, float, float]] = []
    free: list[int] = []
    held: list[tuple[float, int]] = []
    server = -1
    for seat in used[np.lexsort((start_s[used], seats.server[used]))].tolist():
        if seats.server[seat] != server:
            server, held = int(seats.server[seat]), []
            free = list(range(int(gpus_of[server])))
        while held and held[0][0] <= start_s[seat]:
            heappush(free, heappop(held)[1])
        job = int(segments.id[segment_of_seat[seat]])
        for _ in range(int(seats.gpus[seat])):
            if not free:
                raise ContractBroken(
                    f"server {server} has {gpus_of[server]} GPUs; more are held at {start_s[seat]} s, by job {job} too"
                )
            gpu = heappop(free)
            rows.append((server, gpu, job, float(start_s[seat]), float(end_s[seat])))
            heappush(held, (float(end_s[seat]), gpu))
    return np.array(rows, dtype=INTERVAL).view(np.recarray)
