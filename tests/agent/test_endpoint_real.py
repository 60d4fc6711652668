"""Endpoints on a real slurmctld: silence, a dead node, a killed agent, loaded hand-overs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.endpoint import NOWHERE
from tests.support.postgres import free_port
from tests.support.reverse_proxies import NGINX, program
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SILENT_S = 45
"""Longer than Slurm's commands try."""

SERVICE = f"""#!{sys.executable}
import os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # it serves on until it is cancelled

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.1)
        body = os.environ["MIRAGE_LINK"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

server = Server(("127.0.0.1", 20000 + int(os.environ["SLURM_JOB_ID"]) % 20000), Answers)
while os.environ["MIRAGE_LINK"] != "1" and not os.path.exists("loaded"):
    time.sleep(0.1)
subprocess.run([sys.executable, "-m", "mirage", "link", "ready"])
server.serve_forever()
"""


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=3, min_job_age_s=36_000)


@pytest.fixture
def shell(cluster: Any, tmp_path: Path) -> Iterator[Shell]:
    yield Shell(cluster, tmp_path)
    for node in cluster.run("sinfo", "--noheader", "--Node", "--states=down", "-o", "%N").split():
        cluster.run("scontrol", "update", f"nodename={node}", "state=resume")


@pytest.fixture
def watched(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """``mirage endpoint --watch`` of the running chain ``serve``; its output is ``watch.log``."""
    shell.submit("serve", "-t", "10", "--policy", "reactive", "serve.sh")
    agent = shell.agent()
    shell.until(lambda: "ready" in shell.kinds("serve"), 60, "the link serves, and the agent knows")
    with (shell.folder / "watch.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mirage", "endpoint", "serve", "--port", "8000", "-o", "up", "--watch",
             "--every", "2s"],
            env=shell.environment, cwd=shell.folder, stderr=log, text=True,
        )  # fmt: skip
    yield process
    process.kill()
    process.wait()
    terminate(agent)


def node_of(shell: Shell, chain: str = "serve") -> str:
    return shell.found(chain)[1][0].nodelist


def text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_a_watch_outlives_a_silent_controller_and_leaves_a_node_that_is_down(
    shell: Shell, watched: subprocess.Popen[str]
) -> None:
    file, log = shell.folder / "up", shell.folder / "watch.log"
    node = node_of(shell)
    shell.until(lambda: f"{node}:8000" in text(file), 20, "the file points to the link")
    pid = shell.cluster.processes.pid("slurmctld")
    os.kill(pid, signal.SIGSTOP)
    try:
        end_s = time.monotonic() + SILENT_S
        while time.monotonic() < end_s:
            assert watched.poll() is None, log.read_text()
            assert f"{node}:8000" in text(file)
            time.sleep(1)
        shell.until(lambda: "contact lost since" in text(log), 20, "the silence is reported")
    finally:
        os.kill(pid, signal.SIGCONT)
    shell.until(lambda: "contact is back" in text(log), 60, "contact is back")
    assert log.read_text().count("contact") == 2
    assert f"{node}:8000" in text(file)
    shell.cluster.kill_controller()
    shell.until(lambda: text(log).count("contact lost") == 2, 20, "the end of the controller is reported")
    assert f"{node}:8000" in text(file)
    shell.cluster.start_controller()
    shell.until(lambda: text(log).count("contact is back") == 2, 60, "contact is back again")
    time.sleep(5)
    assert f"{node}:8000" in text(file), log.read_text()
    shell.cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    shell.until(lambda: f"{node}:8000" not in text(file), 5, "the file leaves the node that is down")
    assert terminate(watched) == 0
    assert "ended by SIGTERM" in log.read_text()
    shell.mirage("chain", "stop", "serve")


def test_a_killed_agent_that_is_started_again_follows_its_endpoints(shell: Shell) -> None:
    file = shell.folder / "up"
    shell.submit("again", "-t", "10", "--policy", "reactive", "serve.sh")
    shell.mirage("endpoint", "again", "--port", "8000", "-o", "up", "--install")
    agent = shell.agent()
    shell.until(lambda: "server n" in text(file), 40, "the agent writes the file")
    agent.kill()
    agent.wait()
    shell.cluster.run("scontrol", "update", f"nodename={node_of(shell, 'again')}", "state=down", "reason=test")
    agent = shell.agent()
    shell.until(lambda: "server n" not in text(file) and text(file) != "", 40, "the next one leaves the dead node")
    file.unlink()
    shell.mirage("chain", "stop", "again")
    shell.until(lambda: shell.row("again")["state"] == "done", 60, "the chain is done")
    shell.until(lambda: NOWHERE in text(file), 120, "a chain that is done points nowhere")
    assert "endpoint" in shell.kinds("again")
    terminate(agent)


class Load:
    """A bounded loop of requests, four at a time, and what became of them."""

    def __init__(self, port: int, most: int) -> None:
        self.port, self.left = port, most
        self.answers: dict[str, int] = {}
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            with self.lock:
                if self.left == 0:
                    return
                self.left -= 1
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=20) as answer:
                    output = f"link {answer.read().decode()}"
            except urllib.error.HTTPError as error:
                with error:
                    output = f"status {error.code}"
            except OSError as error:
                output = f"{type(error).__name__}: {error}"
            with self.lock:
                self.answers[output] = self.answers.get(output, 0) + 1
            time.sleep(0.02)

    def end(self) -> dict[str, int]:
        self.over.set()
        for thread in self.threads:
            thread.join(30)
        return self.answers


def test_no_request_is_lost_through_hand_overs_where_services_serve_through_the_grace(shell: Shell) -> None:
    """All links on one node: the port derived from the job's number lets both serve at once.

    No link follows the first before it has answered a request.
    """
    port, folder = free_port(), shell.folder
    (folder / "here").write_text("upstream train-k3f9 {\n    server 127.0.0.1:9 down;\n}\n")
    conf = NGINX.format(folder=folder, file=folder / "here", port=port).replace("daemon off; master_process off; ", "")
    (folder / "nginx.conf").write_text(f"daemon off; {conf}")
    argv = [program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    # The nodes of this cluster have names that only Slurm knows: nginx reads a copy with the address of all of them.
    reload = (
        f"sed 's/server n[0-9]*:/server 127.0.0.1:/; s/upstream .* /upstream train-k3f9 /' {folder}/up > {folder}/here"
    )
    shell.script("web.py", SERVICE)
    nginx = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        shell.submit(
            "web", "-t", "4", "-w", "n2", "-o", "/dev/null", "--policy", "lead:0.061", "--ready-by-job", "--links", "3",
            "--grace", "10s", "web.py",
        )  # fmt: skip
        words = ("--port", "20000+JOB%20000", "-o", "up", "--reload", f"{reload} && {' '.join(argv)} -s reload")
        shell.mirage("endpoint", "web", *words, "--install")
        agent = shell.agent()
        shell.until(lambda: "endpoint" in shell.kinds("web"), 60, "the proxy points to the first link")
        time.sleep(2)
        load = Load(port, most=20_000)
        shell.until(lambda: "link 1" in load.answers, 20, "the first link answers")
        (folder / "loaded").touch()
        shell.until(lambda: shell.kinds("web").count("ended-by-us") == 2, 200, "two hand-overs")
        time.sleep(3)
        answers = load.end()
        terminate(agent)
        shell.mirage("chain", "stop", "web")
    finally:
        terminate(nginx)
    assert set(answers) == {"link 1", "link 2", "link 3"}
    assert "endpoint-trouble" not in shell.kinds("web")
