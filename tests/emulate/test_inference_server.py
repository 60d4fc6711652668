"""An emulated vLLM over real sockets: answers, metrics, load, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed; pip install aiohttp")
pytest.importorskip("uvloop", reason="uvloop is not installed; pip install uvloop")

from mirage.cli import main
from mirage.emulate.inference_server import LatencyCounts, ServedModel
from tests.support.waiting import until

Start = Callable[..., "Server"]


class Server:
    """A process with an emulated server."""

    def __init__(self, *options: str) -> None:
        words = ["emulate", "infer", "--model", "llama", "--port", "0", *options]
        self.process = subprocess.Popen([sys.executable, "-m", "mirage", *words], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.port = int(re.findall(r"listens on 127.0.0.1:(\d+)", self.process.stderr.readline())[0])

    def request(self, path: str, body: Any = None) -> tuple[int, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET" if body is None else "POST", path, body if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def complete(self, **body: Any) -> tuple[int, str]:
        return self.request("/v1/completions", {"model": "llama", "prompt": "three short words", **body})

    def metric(self, name: str) -> float:
        found = re.search(rf'^{name}{{model_name="llama"[^}}]*}} (\S+)$', self.request("/metrics")[1], re.MULTILINE)
        assert found is not None, name
        return float(found[1])


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers, and ends them after the test."""
    servers: list[Server] = []

    def started(*options: str) -> Server:
        servers.append(Server(*options))
        return servers[-1]

    yield started
    for server in servers:
        server.process.kill()
        server.process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A fast server."""
    one = Server("--first-token-s", "0.01", "--token-s", "0.001", "--max-num-seqs", "2")
    yield one
    one.process.kill()
    one.process.communicate()


def test_a_completion_has_its_tokens_and_their_number(server: Server) -> None:
    status, text = server.complete(max_tokens=5)
    found = json.loads(text)
    assert (status, found["object"], found["model"]) == (200, "text_completion", "llama")
    assert found["choices"] == [{"index": 0, "text": " token" * 5, "logprobs": None, "finish_reason": "length"}]
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


@pytest.mark.parametrize("prompt", [["three short words"], [11, 12, 13], [[11, 12, 13]]])
def test_a_prompt_may_be_a_list(server: Server, prompt: list[Any]) -> None:
    status, text = server.complete(prompt=prompt, n=1)
    assert (status, json.loads(text)["usage"]["prompt_tokens"]) == (200, 3)


def test_a_stream_has_one_event_for_each_token(server: Server) -> None:
    before = server.metric("vllm:generation_tokens_total")
    status, text = server.complete(max_tokens=4, stream=True)
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert (status, events[-1], len(events)) == (200, "[DONE]", 5)
    assert [json.loads(event)["choices"][0]["finish_reason"] for event in events[:-1]] == [None, None, None, "length"]
    assert server.metric("vllm:generation_tokens_total") == before + 4


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "other", "prompt": "x"}, 404, "The model `other` does not exist."),
        ({"model": "llama"}, 400, "no JSON object with a prompt"),
        ([1], 400, "no JSON object with a prompt"),
        ({"model": "llama", "prompt": "x", "n": 2}, 400, "One choice is emulated: give one prompt, and n = 1."),
        ({"model": "llama", "prompt": ["x", "y"]}, 400, "One choice is emulated: give one prompt, and n = 1."),
        ({"model": "llama", "prompt": [[1, 2], [3]]}, 400, "One choice is emulated: give one prompt, and n = 1."),
        *[
            ({"model": "llama", "prompt": "x", "max_tokens": n}, 400, f"a whole number from 1 to 1000000, got {n}.")
            for n in (0, -1, 1.5, 10**9, 10**400)
        ],
        ({"model": "llama", "prompt": "x", "max_tokens": float("inf")}, 400, "to 1000000, got inf."),
        ({"model": "llama", "prompt": "x", "max_tokens": "ten"}, 400, "to 1000000, got 'ten'."),
    ],
)
def test_what_cannot_be_answered_is_refused(server: Server, body: Any, status: int, message: str) -> None:
    found, text = server.request("/v1/completions", body)
    assert (found, json.loads(text)["error"]["code"]) == (status, status)
    assert message in json.loads(text)["error"]["message"]


def test_health_and_models(server: Server) -> None:
    assert server.request("/health") == (200, "")
    assert json.loads(server.request("/v1/models")[1])["data"][0]["id"] == "llama"


def in_background(server: Server, n: int, **body: Any) -> list[Any]:
    """Sends requests; the list receives each status, or the name of the exception."""
    answers: list[Any] = []

    def one() -> None:
        try:
            answers.append(server.complete(**body)[0])
        except (OSError, http.client.HTTPException) as error:
            answers.append(type(error).__name__)

    for _ in range(n):
        threading.Thread(target=one, daemon=True).start()
    return answers


def test_requests_above_the_limit_wait(start: Start) -> None:
    server = start("--first-token-s", "0.5", "--token-s", "0.01", "--max-num-seqs", "2")
    answers = in_background(server, 3, max_tokens=50)
    until(lambda: server.metric("vllm:num_requests_waiting") == 1, 10, "no request waits", 0.02)
    assert server.metric("vllm:num_requests_running") == 2
    until(lambda: answers == [200, 200, 200], 10, "not all are answered")
    assert server.metric("vllm:num_requests_running") == server.metric("vllm:num_requests_waiting") == 0
    assert server.metric("vllm:request_success_total") == 3


def test_times_rise_with_the_number_of_requests() -> None:
    model = ServedModel("llama", max_num_seqs=11, full_load=3.0)
    assert [model.load_factor(n) for n in (1, 6, 11)] == [1.0, 2.0, 3.0]


def test_at_the_end_requests_are_cut_by_default(start: Start) -> None:
    server = start("--first-token-s", "60")
    answers = in_background(server, 2)
    until(lambda: server.metric("vllm:num_requests_running") == 2, 10, "no request runs", 0.02)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    until(lambda: answers == ["RemoteDisconnected"] * 2, 10, lambda: str(answers), 0.02)


def test_with_a_time_out_requests_are_completed_and_new_ones_get_503(start: Start) -> None:
    server = start("--first-token-s", "2", "--shutdown-timeout", "50")
    answers = in_background(server, 2)
    until(lambda: server.metric("vllm:num_requests_running") == 2, 10, "no request runs", 0.02)
    server.process.send_signal(signal.SIGTERM)
    until(lambda: server.request("/health")[0] == 503, 10, "it does not drain", 0.02)
    assert server.complete()[0] == 503
    assert server.process.wait(30) == 0
    assert answers == [200, 200]


def test_a_request_longer_than_the_time_out_is_cut(start: Start) -> None:
    server = start("--first-token-s", "60", "--shutdown-timeout", "0.2")
    answers = in_background(server, 1)
    until(lambda: server.metric("vllm:num_requests_running") == 1, 10, "no request runs", 0.02)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    until(lambda: answers == ["RemoteDisconnected"], 10, lambda: str(answers), 0.02)


def test_a_port_in_use_is_refused(server: Server) -> None:
    words = ["emulate", "infer", "--model", "llama", "--port", str(server.port)]
    done = subprocess.run([sys.executable, "-m", "mirage", *words], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_of_another_host_is_refused_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", "infer", "--model", "llama", "--port", "0", "--host", "203.0.113.9"]) == 1
    assert "give an address of this host with --host" in capsys.readouterr().err


def test_a_histogram_counts_in_all_larger_buckets() -> None:
    counts = LatencyCounts()
    for seconds in (0.005, 0.3, 99.0):
        counts.add(seconds)
    lines = counts.lines("t", 'm="x"')
    assert 't_bucket{m="x",le="0.25"} 1' in lines
    assert 't_bucket{m="x",le="0.5"} 2' in lines
    assert lines[-3:] == ['t_bucket{m="x",le="+Inf"} 3', 't_sum{m="x"} 99.305000', 't_count{m="x"} 3']
