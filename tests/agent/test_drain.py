"""Requests in flight: read from the metrics of servers, and waited for."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from mirage.agent.drain import (
    EVERY_S,
    KNOWN,
    Drained,
    Reading,
    check_url,
    drain,
    parse_metrics,
    read_requests,
    reading_of,
)
from mirage.errors import ConfigurationError

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b} 9"} 3.0
vllm:num_requests_running{engine="1",model_name="a {b} 9"} 2.0 1795728923000
vllm:num_requests_waiting{engine="0",model_name="a"} 1e1
vllm:request_success_total{engine="0",finished_reason="stop"} 40.0
vllm:request_success_total{engine="0",finished_reason="abort"} 2.0
vllm:request_success_created{engine="0",finished_reason="stop"} 1.79e+09
broken line
process_open_fds nothing
"""


def test_samples_of_all_labels_add_up() -> None:
    samples = parse_metrics(VLLM)
    assert samples["vllm:num_requests_running"] == 5
    assert reading_of(samples) == Reading(15, 42.0)


@pytest.mark.parametrize(
    ("text", "in_flight", "finished"),
    [
        ("sglang:num_running_reqs 2\nsglang:num_queue_reqs 3\nsglang:num_requests_total 9\n", 5, 9.0),
        ("tgi_batch_current_size 2\ntgi_queue_size 1\ntgi_request_count 7\n", 3, 7.0),
        ("llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\n", 5, math.nan),
        ("vllm:num_requests_running 1\n", 1, math.nan),
        ("litellm_in_flight_requests 1.0\n", 0, math.nan),  # the reading itself
        ("litellm_in_flight_requests 4.0\n", 3, math.nan),
        ("litellm_in_flight_requests 0.0\n", 0, math.nan),
    ],
)
def test_each_server_counts_under_names_of_its_own(text: str, in_flight: int, finished: float) -> None:
    reading = reading_of(parse_metrics(text))
    assert reading.in_flight == in_flight
    assert reading.finished == pytest.approx(finished, nan_ok=True)


def test_a_number_that_is_not_finite_is_no_answer() -> None:
    with pytest.raises(OSError, match="vllm:num_requests_running is no finite number now"):
        reading_of(parse_metrics("vllm:num_requests_running NaN\n"))


def test_gauges_of_another_server_are_named() -> None:
    samples = {"busy": 2.0, "queued": 0.5, "vllm:num_requests_running": 9.0}
    assert reading_of(samples, ("busy", "queued")).in_flight == 3
    with pytest.raises(ConfigurationError, match="none of these metrics is there: absent; name the gauges"):
        reading_of(samples, ("busy", "absent"))
    with pytest.raises(ConfigurationError, match=r"vllm:num_requests_running \(vLLM\), sglang.*--gauge"):
        reading_of({"up": 1.0})


class Time:
    """A clock that moves when it sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def drained(*readings: Reading | Exception, quiet_s: float = 2, most_s: float = math.inf) -> Drained:
    """The end of a wait for a server that answers so, the last one repeatedly."""
    left, time = list(readings), Time()

    def read() -> Reading:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    return drain(read, quiet_s=quiet_s, most_s=most_s, real_s=lambda: time.now_s, sleep=time.sleep)


ZERO = Reading(0, 7.0)


def test_a_server_is_drained_when_it_was_quiet_long_enough() -> None:
    assert drained(ZERO) == Drained(0, 2.0)
    assert drained(Reading(3, 7.0), Reading(1, 9.0), Reading(0, 10.0)) == Drained(0, 2 * EVERY_S + 2)


def test_a_request_that_ends_between_two_readings_was_one_too() -> None:
    assert drained(ZERO, ZERO, Reading(0, 8.0)).took_s == 2 * EVERY_S + 2


def test_a_server_without_counters_is_quiet_at_zero() -> None:
    assert drained(Reading(1, math.nan), Reading(0, math.nan)).took_s == 2.0


def test_an_answer_that_is_missing_counts_as_a_request() -> None:
    late = TimeoutError("late")
    assert drained(ZERO, ZERO, late, ZERO).took_s == 2 * EVERY_S + 2
    assert drained(late, most_s=3) == Drained(1, 3.0, trouble="late")


def test_a_server_that_refuses_connections_has_gone() -> None:
    refused = ConnectionRefusedError()
    assert drained(Reading(2, 1.0), refused) == Drained(0, 3 * EVERY_S, gone=True)
    assert not drained(refused, refused, ZERO).gone  # it begins to listen


def test_the_wait_has_a_longest_time() -> None:
    assert drained(Reading(4, 1.0), most_s=1.5) == Drained(4, 1.5)


@pytest.fixture
def served() -> Iterator[Any]:
    """A server with ``answer``, the status and text of its next answer."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = server.answer  # type: ignore[attr-defined]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Metrics)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_metrics_are_read_without_the_proxy_of_the_site(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    url = f"http://127.0.0.1:{served.server_port}/metrics"
    served.answer = (200, VLLM)
    assert read_requests(url).in_flight == 15
    served.answer = (503, "")
    with pytest.raises(OSError, match="status 503"):
        read_requests(url)
    served.answer = (404, "")
    with pytest.raises(ConfigurationError, match="status 404; give the URL of the metrics with --metrics"):
        read_requests(url)


def test_a_refused_connection_is_no_late_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            read_requests(f"http://127.0.0.1:{taken.getsockname()[1]}/metrics")


@pytest.mark.parametrize("url", ["localhost:8000/metrics", "file:///etc/passwd", "http://", "http://a:99999/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is no URL; give one like http://localhost:8000/metrics"):
        check_url(url)


def test_known_servers_differ_in_their_first_gauge() -> None:
    assert len({kind.in_flight[0] for kind in KNOWN}) == len(KNOWN)
