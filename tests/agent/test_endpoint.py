"""Upstream files: read by the programs they are for, with and without a live link."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.background.endpoints import install_endpoint, installed_endpoints
from mirage.agent.chain.tag import Tag
from mirage.agent.endpoint import (
    KINDS,
    Endpoint,
    Port,
    check_replaceable,
    live_job,
    numbers_of,
    render,
    write_if_changed,
)
from mirage.agent.model import Chain, ChainSpec, Link, LinkState
from mirage.agent.paths import Home
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob, Submission
from tests.support.postgres import free_port
from tests.support.reverse_proxies import ENVOY, HAPROXY, NGINX, program
from tests.support.waiting import terminate, until


class Replies(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"alive")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[int]:
    """The port of a job that serves."""
    server = HTTPServer(("127.0.0.1", 0), Replies)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", [None, "gpu07"])
def test_files_of_ours_may_be_replaced(kind: str, host: str | None, tmp_path: Path) -> None:
    check_replaceable(tmp_path / "up")
    for text in ("", render(kind, "serve", host, 80)):
        (tmp_path / "up").write_text(text)
        check_replaceable(tmp_path / "up")
    for other in (f"# mine\n{text}", '{"model_list": [], "settings": 1}', "[1]", "model_list:\n  - x\n"):
        (tmp_path / "up").write_text(other)
        with pytest.raises(ConfigurationError, match="up is not a file of mirage endpoint"):
            check_replaceable(tmp_path / "up")


def words(kind: str, folder: Path, port: int) -> list[str]:
    """The proxy's command line; its upstream file is ``upstream`` in the folder."""
    if kind == "nginx":
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, file=folder / "upstream", port=port))
        return [program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port))
    return [program("haproxy"), "-f", str(folder / "haproxy.cfg"), "-f", str(folder / "upstream")]


@contextmanager
def answering(argv: list[str], port: int) -> Iterator[Callable[[], tuple[int, str]]]:
    """Returns a function that sends a request to a running proxy."""

    def request() -> tuple[int, str]:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, ""
            except urllib.error.URLError:
                time.sleep(0.05)
        raise AssertionError(f"{argv[0]} does not answer")

    proxy = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        yield request
    finally:
        terminate(proxy)


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_a_proxy_takes_the_file_and_follows_it(kind: str, service: int, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "upstream"
    argv = words(kind, tmp_path, port)
    for host, answer in ((None, (503, "")), ("127.0.0.1", (200, "alive"))):
        assert write_if_changed(file, render(kind, "train-k3f9", host, service))
        check = subprocess.run([*argv, "-t" if kind == "nginx" else "-c"], capture_output=True, text=True)
        assert check.returncode == 0, check.stderr
        with answering(argv, port) as request:
            assert request() == answer


def test_haproxy_starts_with_a_host_that_cannot_be_resolved(tmp_path: Path) -> None:
    argv = words("haproxy", tmp_path, free_port())
    (tmp_path / "upstream").write_text(render("haproxy", "train-k3f9", "node-that-is-not.invalid", 8000))
    assert subprocess.run([*argv, "-c"], capture_output=True).returncode == 0


def test_traefik_reads_json() -> None:
    def servers(host: str | None) -> object:
        return json.loads(render("traefik", "train", host, 80))["http"]["services"]["train"]["loadBalancer"]["servers"]

    assert servers("n01") == [{"url": "http://n01:80"}]
    assert servers(None) == []


def test_litellm_reads_a_list_of_models() -> None:
    """LiteLLM 1.83.14 has read this file, as an ``include``, and passed requests on."""

    def served(host: str | None) -> object:
        return json.loads(render("litellm", "train", host, 80))

    params = {"model": "hosted_vllm/train", "api_base": "http://n01:80/v1"}
    assert served("n01") == {"model_list": [{"model_name": "train", "litellm_params": params}]}
    params["api_base"] = "http://127.0.0.1:9/v1"
    assert served(None) == {"model_list": [{"model_name": "train", "litellm_params": params}]}


def test_envoy_follows_the_file_without_a_reload(service: int, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "upstream.json"
    (tmp_path / "envoy.yaml").write_text(ENVOY.format(file=file, port=port))
    write_if_changed(file, render("envoy", "train-k3f9", None, 0))
    argv = [program("envoy"), "-c", str(tmp_path / "envoy.yaml"), "--concurrency", "1", "--disable-hot-restart"]
    with answering(argv, port) as request:
        for host, answer in ((None, (503, "")), ("127.0.0.1", (200, "alive")), (None, (503, ""))):
            write_if_changed(file, render("envoy", "train-k3f9", host, service))
            until(lambda wanted=answer: request() == wanted, 5, f"it answers {answer}")  # type: ignore[misc]
            assert request() == answer


def test_what_cannot_be_a_proxy_or_a_host_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="no proxy 'apache' here; there are nginx, haproxy, traefik, envoy, litellm"
    ):
        render("apache", "train", "n01", 80)
    for kind in KINDS:
        for host in ("n01; evil", "n01\n", "", "-n"):
            with pytest.raises(ConfigurationError, match="not a valid host"):
                render(kind, "train", host, 80)
        address = "fe80::1" if kind == "envoy" else "[fe80::1]:80"
        assert f"{address}" in render(kind, "train", "[fe80::1]", 80)


KEY = "deer"
RUNS = JobState.RUNNING


def link(number: int, state: LinkState, ready_s: int = -1, started_s: int = 4) -> Link:
    return Link(1, number, state, job=100 + number, ready_s=ready_s, started_s=started_s)


def job(link: int, state: JobState = RUNS, **known: Any) -> QueuedJob:
    comment = str(Tag("train", link, "safestre", known.pop("key", KEY)))
    return QueuedJob(100 + link, state, **{"comment": comment, "start_s": 4, "nodelist": f"n{link}", **known})


RUNNING, HELD, ENDED = LinkState.RUNNING, LinkState.HELD, LinkState.ENDED


@pytest.mark.parametrize(
    ("links", "jobs", "live"),
    [
        ([], [], None),
        ([link(1, ENDED, 5), link(2, LinkState.QUEUED)], [job(2, JobState.PENDING)], None),
        ([link(1, RUNNING)], [job(1)], 101),
        ([link(1, RUNNING, 5), link(2, RUNNING)], [job(1), job(2)], 101),
        ([link(1, RUNNING, 5), link(2, RUNNING, 9), link(3, HELD)], [job(1), job(2)], 102),
        ([link(1, RUNNING), link(2, RUNNING)], [job(1), job(2)], 101),
        # Slurm decides what runs, and the store may be late:
        ([link(1, RUNNING, 5), link(2, RUNNING, 9)], [job(1), job(2, JobState.NODE_FAIL)], 101),
        ([link(1, RUNNING, 5), link(2, RUNNING, 9)], [job(1), job(2, completing=True)], 101),
        ([link(1, RUNNING, 5), link(2, RUNNING, 9)], [job(1), job(2, JobState.SUSPENDED)], 101),
        ([link(1, RUNNING, 5), link(2, RUNNING, 9)], [job(1)], 101),
        ([link(1, RUNNING, 5), link(2, HELD)], [job(1, JobState.TIMEOUT), job(2)], 102),
        ([link(1, RUNNING, 5)], [], None),
        ([link(1, RUNNING, 5)], [job(1, nodelist="")], None),
        ([link(1, RUNNING, 5)], [job(1, key="feed")], None),
        ([link(1, RUNNING), link(2, RUNNING, 9)], [job(1), job(2, start_s=60)], 101),  # requeued: not ready again
    ],
)
def test_the_live_job_is_that_of_the_newest_link_that_is_ready(
    links: list[Link], jobs: list[QueuedJob], live: int | None
) -> None:
    chain = Chain(1, "train", ChainSpec(Submission("job.sh")), 0, key=KEY)
    found = live_job(links, {one.id: one for one in jobs}, chain)
    assert (found and found.id) == live


def test_jobs_that_can_be_live_now_or_next_are_queried() -> None:
    links = [link(1, ENDED), link(2, RUNNING), link(3, HELD), Link(1, 4)]
    assert numbers_of(links) == [102, 103]


@pytest.mark.parametrize(("text", "port"), [("8000", 8000), ("20000+JOB%20000", 20_017), ("1+JOB%7", 6)])
def test_a_port_is_fixed_or_derived_from_the_number_of_the_job(text: str, port: int) -> None:
    assert Port.parse(text).of(40_017) == port
    assert str(Port.parse(text)) == text


@pytest.mark.parametrize("text", ["0", "65536", "", "80+JOB", "80+JOB%0", "60000+JOB%5537", "JOB%8", "-1", "8٠"])
def test_what_can_be_no_port_is_refused(text: str) -> None:
    words = "reaches port 65536" if "5537" in text else "is no port; give one from 1 to 65535"
    with pytest.raises(ConfigurationError, match=words):
        Port.parse(text)


def test_a_job_on_several_nodes_serves_on_the_first() -> None:
    endpoint = Endpoint("train", "haproxy", Port.parse("10+JOB%10"), Path("up"))
    assert "server live n09:13 " in endpoint.text(job(3, nodelist="n[09-11,20]"))
    assert endpoint.target(job(3, nodelist="n[09-11,20]")) == "points to n09:13"
    assert (endpoint.text(None), endpoint.target(None)) == ("backend train\n", "points nowhere")


def test_unchanged_text_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "upstream"
    assert write_if_changed(file, "one")
    file.chmod(0o640)
    before = file.stat()
    assert not write_if_changed(file, "one")
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert write_if_changed(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("two", 0o640)
    assert file.stat().st_ino != before.st_ino
    assert [path.name for path in tmp_path.iterdir()] == ["upstream"]


def test_a_symbolic_link_stays_one_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    link, target = tmp_path / "link", tmp_path / "sites" / "upstream"
    link.symlink_to("sites/upstream")
    for text in ("one", "two"):
        assert write_if_changed(link, text)
        assert (link.is_symlink(), target.read_text()) == (True, text)


def test_a_file_that_cannot_be_written_is_reported_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot write .*No such file"):
        write_if_changed(tmp_path / "nowhere" / "upstream", "x")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="cannot write"):
        write_if_changed(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_device_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    pipe, link, sink = tmp_path / "pipe", tmp_path / "stdout", tmp_path / "null"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    sink.symlink_to("/dev/null")
    for path in (pipe, link, sink):
        with pytest.raises(ConfigurationError, match=f"{path}: it is a device or a pipe; name a file"):
            write_if_changed(path, "x")
    assert (pipe.is_fifo(), link.readlink(), sink.readlink()) == (True, pipe, Path("/dev/null"))
    home = Home(tmp_path, "sqlite://")
    with pytest.raises(ConfigurationError, match="pipe: it is a device or a pipe; name a file"):
        install_endpoint(home, Endpoint("serve", "nginx", Port(80), pipe))
    assert installed_endpoints(home) == ([], {})


def test_a_reader_never_finds_half_a_file(tmp_path: Path) -> None:
    file, texts = tmp_path / "upstream", ["a" * 100_000, "b" * 50_000]
    write_if_changed(file, texts[0])
    found: set[str] = set()
    over = threading.Event()

    def update() -> None:
        while not over.is_set():
            found.add(file.read_text())

    reader = threading.Thread(target=update)
    reader.start()
    for k in range(100):
        write_if_changed(file, texts[(k + 1) % 2])
    over.set()
    reader.join()
    assert found <= set(texts)
