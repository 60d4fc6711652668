"""Requests in flight in an inference server, and the wait until there are none."""

from __future__ import annotations

import math
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException

from mirage.errors import ConfigurationError, shown
from mirage.web_url import is_web_url

EVERY_S = 0.5
"""Real seconds between two readings of the metrics."""

TIMEOUT_S = 5.0
"""Real seconds that one reading may take: a server under load answers late."""

GONE_AFTER = 3
"""Number of refused connections in a row after which the server counts as gone."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServerMetrics:
    """The metrics of a kind of server that count its requests.

    Attributes:
        title: Name of the server.
        in_flight: Gauges of requests that run or wait; their sum is the number in flight.
        finished: Counters that change with every request; empty for none.
        own: Requests that a reading of the metrics itself adds to the gauges.
    """

    title: str
    in_flight: tuple[str, ...]
    finished: tuple[str, ...] = ()
    own: int = 0


KNOWN = (
    ServerMetrics("vLLM", ("vllm:num_requests_running", "vllm:num_requests_waiting"), ("vllm:request_success_total",)),
    ServerMetrics("SGLang", ("sglang:num_running_reqs", "sglang:num_queue_reqs"), ("sglang:num_requests_total",)),
    ServerMetrics("TGI", ("tgi_batch_current_size", "tgi_queue_size"), ("tgi_request_count",)),
    ServerMetrics("llama.cpp", ("llamacpp:requests_processing", "llamacpp:requests_deferred")),
    ServerMetrics("LiteLLM", ("litellm_in_flight_requests",), own=1),
)
"""From the documentation of the servers; LiteLLM from its source (1.110.2), whose middleware counts /metrics too."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a server's metrics.

    Attributes:
        in_flight: Number of requests that run or wait.
        finished: Sum of the counters of requests; NaN where the server has none.
    """

    in_flight: int
    finished: float


@dataclass(frozen=True, slots=True)
class Drained:
    """The end of a wait.

    Attributes:
        in_flight: Number of requests at the end; 0 where the server is drained or gone.
        took_s: Real seconds.
        gone: Whether the server accepts no connections any more.
        trouble: Why the last reading had no answer; empty where it had one.
    """

    in_flight: int
    took_s: float
    gone: bool = False
    trouble: str = ""


def parse_metrics(text: str) -> dict[str, float]:
    """The sum of each metric over all labels, by name, in Prometheus' text format."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        try:
            found[sample[1]] = found.get(sample[1], 0.0) + float(sample[2])
        except ValueError:
            continue
    return found


def reading_of(samples: Mapping[str, float], gauges: Sequence[str] = ()) -> Reading:
    """The requests of a server in its metrics.

    Args:
        samples: Value of each metric.
        gauges: Gauges of requests in flight, for a server that is not in ``KNOWN``; all of them must be there.

    Raises:
        ConfigurationError: No metric counts requests.
        OSError: The number is not finite, so the requests are not known now.
    """
    kinds = (ServerMetrics("this server", tuple(gauges)),) if gauges else KNOWN
    for kind in kinds:
        if kind.in_flight[0] in samples and (not gauges or samples.keys() >= set(gauges)):
            in_flight = sum(samples.get(name, 0.0) for name in kind.in_flight) - kind.own
            if not math.isfinite(in_flight):
                raise OSError(f"{kind.in_flight[0]} is no finite number now")
            finished = [samples[name] for name in kind.finished if name in samples]
            return Reading(max(math.ceil(in_flight), 0), sum(finished) if finished else math.nan)
    absent = ", ".join(name for name in gauges if name not in samples)
    names = absent or ", ".join(f"{kind.in_flight[0]} ({kind.title})" for kind in KNOWN)
    raise ConfigurationError(f"none of these metrics is there: {names}; name the gauges of this server with --gauge")


def read_requests(url: str, gauges: Sequence[str] = ()) -> Reading:
    """Reads the metrics of a server once, not through a proxy of the site.

    Raises:
        ConnectionRefusedError: The server does not listen.
        OSError: It gives no answer.
        ConfigurationError: What it answers does not count requests.
    """
    try:
        with _DIRECT.open(url, timeout=TIMEOUT_S) as answer:
            text = answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            if error.code >= 500:
                raise OSError(f"{url} answers with status {error.code}") from error
        raise ConfigurationError(
            f"{url} answers with status {error.code}; give the URL of the metrics with --metrics"
        ) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, OSError):
            raise error.reason from error
        raise
    except (HTTPException, ValueError) as error:
        raise OSError(f"{url}: {error or type(error).__name__}") from error
    return reading_of(parse_metrics(text), gauges)


def drain(
    read: Callable[[], Reading],
    *,
    quiet_s: float,
    most_s: float,
    real_s: Callable[[], float],
    sleep: Callable[[float], object],
) -> Drained:
    """Waits until a server has had no request for a time.

    A reading without an answer counts as a request in flight: a server under load answers late. A server that refuses
    connections has none left to complete.

    Args:
        quiet_s: Real seconds without a request in flight, and without one that began and ended between two readings.
        most_s: Longest wait, real seconds; infinite for none.

    Raises:
        ConfigurationError: The first answer does not count requests.
    """
    begun_s = real_s()
    quiet_since_s, finished = begun_s, math.nan
    refused, in_flight = 0, 1
    while True:
        now_s, trouble = real_s(), ""
        try:
            reading = read()
            refused, in_flight = 0, reading.in_flight
            # NaN differs from itself: a server without counters is quiet when its gauges are zero
            if in_flight or (reading.finished != finished and not math.isnan(reading.finished)):
                quiet_since_s = now_s
            finished = reading.finished
        except ConnectionRefusedError:
            refused += 1
            if refused >= GONE_AFTER:
                return Drained(0, now_s - begun_s, gone=True)
        except OSError as error:
            quiet_since_s, trouble = real_s(), str(error)
        if not refused and now_s - quiet_since_s >= quiet_s:
            return Drained(0, now_s - begun_s)
        if now_s - begun_s >= most_s:
            return Drained(max(in_flight, 1), now_s - begun_s, trouble=trouble)
        sleep(EVERY_S)


def check_url(url: str) -> str:
    """The URL of metrics, as given.

    Raises:
        ConfigurationError: It is not one of http or https.
    """
    if not is_web_url(url):
        raise ConfigurationError(f"--metrics {shown(url)} is no URL; give one like http://localhost:8000/metrics")
    return url
