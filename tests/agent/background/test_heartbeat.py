"""Requests to a monitor over real HTTP, after cycles that Slurm answered and no others."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

import pytest

from mirage.agent.agent import Agent
from mirage.agent.background.heartbeat import EVERY_S, Heartbeat
from mirage.agent.store.sql_store import open_store
from mirage.errors import ConfigurationError
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.trace.table import JobTable
from tests.support.faulty_slurm import FaultySlurm
from tests.support.ready_shells import NoShell
from tests.support.recording_server import RecordingServer


def test_an_agent_calls_while_slurm_answers_and_not_in_an_outage(
    recording_server: RecordingServer, tmp_path: Path
) -> None:
    slurm = FaultySlurm(Simulation(Cluster.pool(1), JobTable.build([1], submit_s=[0], elapsed_s=[1], nodes=[1])))
    heartbeat = Heartbeat(recording_server.url, slurm.clock)

    def cycle() -> int:
        agent.cycle()
        heartbeat.close()
        return len(recording_server.received)

    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        agent = Agent(
            store, slurm, NoShell(), clock=slurm.clock, monotonic=slurm.clock, holder="h", heartbeat=heartbeat
        )
        assert cycle() == 1
        slurm.sleep(EVERY_S - 5)
        assert cycle() == 1, "at most one call a minute"
        slurm.sleep(10)
        slurm.unreachable = True
        assert cycle() == 1, "nothing is known of the chains: the monitor must alert"
        slurm.sleep(EVERY_S)
        slurm.unreachable = False
        assert cycle() == 2


def test_a_monitor_that_does_not_answer_is_reported_once(
    recording_server: RecordingServer, caplog: pytest.LogCaptureFixture
) -> None:
    time_s = 0.0
    heartbeat = Heartbeat(recording_server.url, lambda: time_s)
    caplog.set_level(logging.INFO, "mirage.agent")
    for status in (200, 500, 500, 200):
        recording_server.status = status
        heartbeat.beat()
        heartbeat.close()
        time_s += EVERY_S
    assert len(recording_server.received) == 4
    assert [(record.levelname, record.detail) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("WARNING", f"{recording_server.url} does not answer: HTTP Error 500: Internal Server Error"),
        ("INFO", f"{recording_server.url} answers again"),
    ]


def test_a_monitor_that_speaks_no_http_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(b"SSH-2.0-x\r\n")

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        heartbeat = Heartbeat(url, lambda: 0.0)
        heartbeat.beat()
        heartbeat.close()
    (record,) = caplog.records
    assert record.detail.startswith(f"{url} does not answer: SSH-2.0-x")  # type: ignore[attr-defined]


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"--heartbeat \(MIRAGE_HEARTBEAT\) 'monitor\.example' is no URL"):
        Heartbeat("monitor.example", lambda: 0.0)
    with pytest.raises(ConfigurationError, match="'https://' is no URL"):
        Heartbeat("https://", lambda: 0.0)
