"""Requests to inference: the servers that they need, and the share that waits too long.

Requests arrive at random. A server serves several of them at once, and the others wait in one queue. In every step of
the load, the queue is in equilibrium: Erlang's delay system M/M/c (A. K. Erlang 1917; e.g. L. Kleinrock, Queueing
Systems I, 1975, section 3.8). A request is late if it waits longer than a target before it is served.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from mirage.array_types import Floats, Ints
from mirage.duration import format_duration
from mirage.errors import ConfigurationError, TraceError
from mirage.kernel.record_arrays import Records
from mirage.schedule.compare.inference_demand import NOTICE_S, demand_of_servers, row_pool
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.workload.workload_rows import read_text, table_rows

REQUESTS = "requests_per_s"
"""The column of a file of requests, in place of ``servers``."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How servers serve requests.

    Attributes:
        server_slots: Requests that a server serves at once.
        service_s: Mean time for which a request is served.
        wait_target_s: The longest wait of a request that is not late.
        late_share: Share of the requests that may be late, by which the needed servers are chosen.
        warm_up_s: Time from the return of a server until it serves.

    Raises:
        ConfigurationError: A value cannot be used.
    """

    server_slots: int = 64
    service_s: float = 8.0
    wait_target_s: float = 1.0
    late_share: float = 0.001
    warm_up_s: float = 60.0

    def __post_init__(self) -> None:
        if self.server_slots < 1 or self.server_slots != int(self.server_slots):
            raise ConfigurationError(f"server_slots is {self.server_slots}; give a whole number of 1 or more")
        if not 0 < self.service_s < np.inf:
            raise ConfigurationError(f"service_s is {self.service_s}; give a number above 0")
        if not 0 < self.late_share < 1:
            raise ConfigurationError(f"late_share is {self.late_share}; give a share above 0 and below 1")
        for name in ("wait_target_s", "warm_up_s"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; give a number of 0 or more")

    def late_by_servers(self, requests_per_s: ArrayLike, servers: int) -> Floats:
        """Share of requests that are late with 0, 1, … servers, shape (n, servers + 1).

        Args:
            requests_per_s: Shape (n,), rates of requests.
            servers: The largest number of servers.
        """
        rate = np.asarray(requests_per_s, dtype=np.float64)
        load = rate * self.service_s  # in slots
        late = np.ones((len(rate), servers + 1))
        not_blocked = np.ones(len(rate))  # 1 / Erlang's B, by the recursion over slots; infinite where B is 0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for slots in range(1, servers * self.server_slots + 1):
                not_blocked = 1.0 + slots / load * not_blocked
                if slots % self.server_slots:
                    continue
                used = load / slots
                waits = 1.0 / ((1.0 - used) * not_blocked + used)
                within = np.exp(-(slots - load) / self.service_s * self.wait_target_s)
                late[:, slots // self.server_slots] = np.where(used < 1.0, waits * within, 1.0)
        late[load == 0.0] = 0.0
        return late


@dataclass(frozen=True)
class RequestLoad:
    """Requests to the servers of one pool over time.

    Attributes:
        pool: Number of the pool.
        home: Shape (servers of the cluster,), the pool that each server belongs to.
        time_s: Shape (n,), ascending.
        requests_per_s: Shape (n,), the rate from each time on; the last one holds as long as the one before it.
        serving: How servers serve them.
    """

    pool: int
    home: Ints
    time_s: Floats
    requests_per_s: Floats
    serving: Serving

    @classmethod
    def of(
        cls, cluster: GpuCluster, pool: int, time_s: Floats, requests_per_s: Floats, serving: Serving
    ) -> RequestLoad:
        """The load of a pool of a cluster.

        Raises:
            ConfigurationError: All servers of the pool are too few at some time.
        """
        load = cls(pool, cluster.pool_of, time_s, requests_per_s, serving)
        too_few = load.late[:, -1] > serving.late_share
        if too_few.any():
            k = int(np.flatnonzero(too_few)[0])
            raise ConfigurationError(
                f"at {format_duration(round(time_s[k]))} there are {requests_per_s[k]:g} requests per second, and with "
                f"all {load.servers} servers of pool {cluster.pools[pool]!r} {load.late[k, -1]:.2%} of them are late; "
                f"give more servers, a shorter service_s or more server_slots, or allow a larger late_share"
            )
        return load

    @property
    def servers(self) -> int:
        """Servers of the pool."""
        return int((self.home == self.pool).sum())

    @cached_property
    def late(self) -> Floats:
        """Share of late requests at each time, by the number of servers; shape (n, servers + 1)."""
        return self.serving.late_by_servers(self.requests_per_s, self.servers)

    def needed(self, ahead_s: float) -> tuple[Floats, Ints]:
        """Times, and the servers that must be in the pool from each time on.

        Args:
            ahead_s: The time before a change of the load at which a server must return, to warm up.
        """
        enough = (self.late <= self.serving.late_share).argmax(axis=1).astype(np.int64)
        times = np.unique(np.concatenate([self.time_s, np.maximum(self.time_s - ahead_s, self.time_s[0])]))
        first = np.searchsorted(self.time_s, times, side="right") - 1
        last = np.searchsorted(self.time_s, times + ahead_s, side="right")
        return times, np.array([enough[a:b].max() for a, b in zip(first, last)], dtype=np.int64)

    def demand(self, *, notice_s: float = NOTICE_S, error: float = 0.0, seed: int = 0) -> tuple[Demand, ...]:
        """The demand for servers.

        Args:
            notice_s: Seconds before a change of the load at which it is announced. If they are fewer than a warm-up
                takes, servers return at the announcement, and are warm too late.
            error: Standard deviation of the announced numbers, as a share of the true ones.
            seed: Seed of these errors.
        """
        ahead_s = min(self.serving.warm_up_s, notice_s)
        times_s, servers = self.needed(ahead_s)
        return demand_of_servers(
            times_s, servers, self.pool, self.servers, notice_s=notice_s - ahead_s, error=error, seed=seed
        )

    def late_share(self, loans: Records | None = None) -> float:
        """Share of all requests that are late.

        Args:
            loans: LOAN records of the servers that are lent; None for no loans. A lent server serves again a warm-up
                after its return.
        """
        times = np.append(self.time_s, 2 * self.time_s[-1] - self.time_s[-2])
        away = np.zeros(0), np.zeros(0)
        if loans is not None:
            ours = loans[self.home[loans.server] == self.pool]
            ours = ours[np.lexsort((ours.start_s, ours.server))]
            back_s = ours.end_s + self.serving.warm_up_s
            again = ours.server[1:] == ours.server[:-1]
            back_s[:-1][again] = np.minimum(back_s[:-1], ours.start_s[1:])[again]  # lent again before it was warm
            away = ours.start_s.clip(*times[[0, -1]]), back_s.clip(*times[[0, -1]])
        instants = np.concatenate([times, *away])
        change = np.repeat([0, -1, 1], [len(times), len(away[0]), len(away[1])])
        order = np.argsort(instants, kind="stable")
        instants, present = instants[order], self.servers + np.cumsum(change[order])
        step = np.clip(np.searchsorted(self.time_s, instants[:-1], side="right") - 1, 0, len(self.time_s) - 1)
        requests = np.diff(instants) * self.requests_per_s[step]
        return float((requests * self.late[step, present[:-1]]).sum() / requests.sum()) if requests.sum() else 0.0


def read_request_load(path: str | os.PathLike[str], cluster: GpuCluster, serving: Serving) -> RequestLoad | None:
    """Requests from a CSV with a header ``time_s,pool,requests_per_s``; None for other files.

    Raises:
        TraceError: A line cannot be used; the message begins with the file.
        ConfigurationError: The file cannot be read, or the servers of the pool are too few.
    """
    file = os.fspath(path)
    text = read_text(file)
    return _request_load(file, text, cluster, serving) if REQUESTS in text.partition("\n")[0] else None


@lru_cache(maxsize=8)
def _request_load(file: str, text: str, cluster: GpuCluster, serving: Serving) -> RequestLoad:
    rows = table_rows(file, text)
    missing = [name for name in ("time_s", "pool", REQUESTS) if name not in rows[0].cells]
    if missing or "servers" in rows[0].cells:
        raise TraceError(f"{file}:1: a file of requests has the columns time_s,pool,{REQUESTS}; fix the header")
    if len(rows) < 2:
        raise TraceError(f"{file}: one row; give the rate of requests at two times or more")
    times_s = [row.number("time_s", least=0) for row in rows]
    for (before_s, time_s), row in zip(pairwise(times_s), rows[1:]):
        if time_s <= before_s:
            raise TraceError(
                f"{row.path}:{row.line}: time_s is not above that of the row before; sort the rows by time"
            )
        if row["pool"] != rows[0]["pool"]:
            raise TraceError(f"{row.path}:{row.line}: a second pool; requests of one pool are supported")
    rates = [row.number(REQUESTS, least=0) for row in rows]
    return RequestLoad.of(cluster, row_pool(rows[0], cluster), np.array(times_s), np.array(rates), serving)
