"""Requests to inference: Erlang's formula, against known answers and a simulated queue."""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, TraceError
from mirage.kernel.record_arrays import Records, records
from mirage.schedule.compare.request_load import RequestLoad, Serving, read_request_load
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.engine.kernel.gpu_arrays import LOAN, NEVER_S
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup

CLUSTER = GpuCluster((ServerGroup("a", "v100", 2, 8, "training"), ServerGroup("b", "t4", 6, 4, "inference")))
SERVING = Serving(server_slots=4, service_s=2.0, wait_target_s=1.0, late_share=0.01, warm_up_s=50.0)


def load(rates: list[float], serving: Serving = SERVING) -> RequestLoad:
    times_s = 100.0 * np.arange(len(rates))
    return RequestLoad.of(CLUSTER, 1, times_s, np.array(rates), serving)


def loans(*rows: tuple[int, float, float]) -> Records:
    found = records(LOAN, len(rows))
    for k, (server, start_s, end_s) in enumerate(rows):
        found[k].server, found[k].start_s, found[k].end_s = server, start_s, end_s
    return found


def by_definition(slots: int, offered: float) -> float:
    """Erlang's C by its sum, in exact numbers."""
    load = Fraction(offered)
    all_used = load**slots / math.factorial(slots) * slots / (slots - load)
    return float(all_used / (sum(load**k / math.factorial(k) for k in range(slots)) + all_used))


@pytest.mark.parametrize(
    ("slots", "offered", "waits"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (10, 8.0, 0.4092), (100, 90.0, None)],  # tables of Erlang's C
)
def test_share_that_waits_is_that_of_erlang(slots: int, offered: float, waits: float | None) -> None:
    waits = waits or by_definition(slots, offered)
    at_once = Serving(server_slots=slots, service_s=1.0, wait_target_s=0.0)
    assert at_once.late_by_servers([offered], 1)[0] == pytest.approx([1.0, waits], abs=1e-4)
    later = Serving(server_slots=slots, service_s=1.0, wait_target_s=0.7)
    expected = waits * math.exp(-(slots - offered) * 0.7)
    assert later.late_by_servers([offered], 1)[0, 1] == pytest.approx(expected, rel=1e-3)


def test_late_requests_are_those_of_a_simulated_queue() -> None:
    random, rate, servers = np.random.default_rng(3), 7.0, 4
    arrive_s = np.cumsum(random.exponential(1 / rate, 200_000))
    serve_s = random.exponential(SERVING.service_s, len(arrive_s))
    free_s = [0.0] * (servers * SERVING.server_slots)
    late = 0
    for at_s, takes_s in zip(arrive_s.tolist(), serve_s.tolist()):
        begins_s = max(at_s, heapq.heappop(free_s))
        late += begins_s - at_s > SERVING.wait_target_s
        heapq.heappush(free_s, begins_s + takes_s)
    expected = SERVING.late_by_servers([rate], servers)[0, servers]
    assert expected == pytest.approx(late / len(arrive_s), rel=0.1)
    assert 0.05 < expected < 0.5


def test_an_overloaded_pool_serves_all_requests_late_and_an_idle_one_none() -> None:
    found = SERVING.late_by_servers([0.0, 100.0, 1e-9], 6)
    assert found[0].tolist() == [0.0] * 7
    assert found[1].tolist() == [1.0] * 7
    assert found[2, 1] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(Serving(server_slots=64).late_by_servers([1.0, 3_000.0], 520)).all()


def test_servers_are_needed_a_warm_up_before_the_load() -> None:
    high, low = load([9.0, 9.0]), load([1.0, 1.0])
    most, least = int(high.needed(50.0)[1].max()), int(low.needed(50.0)[1].max())
    assert high.late[0, most] <= 0.01 < high.late[0, most - 1]
    assert most > least
    times_s, servers = load([1.0, 9.0, 1.0]).needed(50.0)
    assert dict(zip(times_s.tolist(), servers.tolist())) == {
        0: least, 50: most, 100: most, 150: most, 200: least,
    }  # fmt: skip


def test_a_lent_server_is_missing_until_it_is_warm() -> None:
    here = load([9.0, 9.0])
    all_there, one_less, two_less = here.late[0, 6], here.late[0, 5], here.late[0, 4]
    assert here.late_share() == here.late_share(loans()) == pytest.approx(all_there)
    share = here.late_share(loans((2, 20.0, 50.0)))  # missing from 20 to 100 s of 200 s
    assert share == pytest.approx(0.6 * all_there + 0.4 * one_less)
    assert here.late_share(loans((2, 20.0, 50.0), (2, 60.0, 90.0))) == pytest.approx(0.4 * all_there + 0.6 * one_less)
    both = here.late_share(loans((2, 0.0, NEVER_S), (3, 100.0, NEVER_S)))
    assert both == pytest.approx(0.5 * one_less + 0.5 * two_less)
    assert here.late_share(loans((0, 0.0, NEVER_S))) == pytest.approx(all_there)  # a server of training


def test_late_requests_count_by_the_rate() -> None:
    here = load([1.0, 9.0])
    assert here.late_share() == pytest.approx((1.0 * here.late[0, 6] + 9.0 * here.late[1, 6]) / 10.0)
    assert load([0.0, 0.0]).late_share(loans((2, 0.0, NEVER_S))) == 0.0


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"at 00:01:40 there are 12 requests per second, and with all 6 servers"
    ):
        load([1.0, 12.0])
    for wrong, why in (
        ({"server_slots": 0}, "server_slots is 0"), ({"service_s": 0.0}, "service_s is 0"),
        ({"late_share": 1.0}, "late_share is 1"), ({"warm_up_s": -1.0}, "warm_up_s is -1"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=why):
            Serving(**wrong)


def test_demand_is_announced_and_met_before_the_load_or_too_late() -> None:
    here = load([1.0, 9.0])
    least, most = (int(servers) for servers in here.needed(0.0)[1])
    assert here.demand(notice_s=80.0) == (Demand(0, 1, least, 0, least), Demand(50, 1, most, 20, most))
    assert here.demand(notice_s=30.0) == (Demand(0, 1, least, 0, least), Demand(70, 1, most, 70, most))
    assert here.demand(notice_s=0.0) == (Demand(0, 1, least, 0, least), Demand(100, 1, most, 100, most))


def test_requests_from_a_file(tmp_path: Path) -> None:
    path, serving = tmp_path / "requests.csv", Serving(server_slots=4, service_s=2.0)
    path.write_text("time_s,pool,requests_per_s\n0,inference,1.5\n600,inference,7\n")
    load = read_request_load(path, CLUSTER, serving)
    assert load is not None
    assert (load.pool, load.time_s.tolist(), load.requests_per_s.tolist()) == (1, [0.0, 600.0], [1.5, 7.0])
    path.write_text("time_s,pool,servers\n0,inference,3\n")
    assert read_request_load(path, CLUSTER, serving) is None
    for text, message in (
        (
            "time_s,requests_per_s\n0,3\n",
            "requests.csv:1: a file of requests has the columns time_s,pool,requests_per_s",
        ),
        ("time_s,pool,servers,requests_per_s\n0,inference,1,3\n", "requests.csv:1: a file of requests has the columns"),
        ("time_s,pool,requests_per_s\n0,inference,3\n", "requests.csv: one row; give the rate"),
        ("time_s,pool,requests_per_s\n9,inference,3\n9,inference,3\n", "requests.csv:3: time_s is not above"),
        ("time_s,pool,requests_per_s\n0,inference,3\n9,training,3\n", "requests.csv:3: a second pool"),
        ("time_s,pool,requests_per_s\n0,serving,3\n9,serving,3\n", "requests.csv:2: unknown pool 'serving'"),
        ("time_s,pool,requests_per_s\n0,inference,-3\n9,inference,3\n", "requests.csv:2: requests_per_s is '-3'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=message):
            read_request_load(path, CLUSTER, serving)
