"""An emulated vLLM: its endpoints, its metrics, and its two ways to end.

No model runs: tokens are words, and they come at due times. As in vLLM, at most ``max_num_seqs`` requests run at once
and others wait, and each runs slower the more run with it. At SIGTERM the server cuts all connections at once; with a
shutdown time-out it completes the requests that it has, answers new ones with 503, and cuts what is left at its end.
"""

from __future__ import annotations

import asyncio
import errno
import json
import signal
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirage.errors import ConfigurationError
from mirage.extras import install

try:
    import uvloop
    from aiohttp import web
except ModuleNotFoundError as missing:
    raise ConfigurationError(
        f"an emulated server needs {missing.name}, which is not installed; run: {install('emulate')}"
    ) from missing

MAX_TOKENS = 16
"""Tokens of a completion that does not declare a number, as in the API of OpenAI."""

MOST_TOKENS = 1_000_000
"""Most tokens of a completion."""

WAKES = 4
"""Times that a request without a stream adapts to the load."""

BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What an emulated server serves, and how fast.

    Attributes:
        name: Name of the model.
        first_token_s: Seconds to the first token of a request that runs alone.
        token_s: Seconds between two of its tokens.
        max_num_seqs: Largest number of requests that run at once.
        full_load: Factor of both times with ``max_num_seqs`` running requests; linear below.
        speed: Emulated seconds per second.
    """

    name: str
    first_token_s: float = 0.05
    token_s: float = 0.01
    max_num_seqs: int = 256
    full_load: float = 2.0
    speed: float = 1.0

    def load_factor(self, running: int) -> float:
        """Factor of all times with a number of running requests."""
        return 1 + (self.full_load - 1) * (running - 1) / max(self.max_num_seqs - 1, 1)


@dataclass(slots=True)
class LatencyCounts:
    """A histogram of Prometheus."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Counts one duration."""
        self.counts[next((k for k, limit in enumerate(BUCKETS_S) if seconds <= limit), len(BUCKETS_S))] += 1
        self.total_s += seconds

    def lines(self, name: str, label: str) -> list[str]:
        """The histogram in the text format of Prometheus."""
        found, below = [f"# TYPE {name} histogram"], 0
        for limit, count in zip([*map(str, BUCKETS_S), "+Inf"], self.counts):
            below += count
            found.append(f'{name}_bucket{{{label},le="{limit}"}} {below}')
        return [*found, f"{name}_sum{{{label}}} {self.total_s:.6f}", f"{name}_count{{{label}}} {below}"]


class InferenceServer:
    """The server of one model.

    Args:
        model: What it serves.
        shutdown_timeout_s: Seconds to complete requests after SIGTERM; 0 cuts them at once.
    """

    def __init__(self, model: ServedModel, shutdown_timeout_s: float = 0.0) -> None:
        self.model, self.shutdown_timeout_s = model, shutdown_timeout_s
        self.running = self.waiting = self.succeeded = self.prompt_tokens = self.generated_tokens = 0
        self.draining = False
        self.first_token, self.end_to_end = LatencyCounts(), LatencyCounts()
        self._slots = asyncio.Semaphore(model.max_num_seqs)
        self._ended = asyncio.Event()
        self._requests: set[int] = set()

    def application(self) -> web.Application:
        """The endpoints."""
        found = web.Application()
        found.router.add_post("/v1/completions", self._completions)
        found.router.add_get("/v1/models", self._models)
        found.router.add_get("/health", self._health)
        found.router.add_get("/metrics", self._metrics)
        return found

    async def serve(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Serves until SIGTERM or SIGINT, and then as long as requests are completed.

        Args:
            host: Address to listen on.
            port: Its port; 0 for a free one.
            ready: Receives the port when it listens.

        Raises:
            ConfigurationError: The port cannot be used.
        """
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, backlog=1024).start()
        except OSError as error:
            await runner.cleanup()
            is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            remedy = "give an address of this host with --host" if is_host else "choose another port"
            raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}; {remedy}") from error
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        ready(runner.addresses[0][1])
        await self._ended.wait()
        await runner.cleanup()  # cuts what still runs, as vLLM does: no answer, or half of a stream

    def _stop(self) -> None:
        self.draining = True
        if not self._requests or not self.shutdown_timeout_s:
            self._ended.set()
        else:
            asyncio.get_running_loop().call_later(self.shutdown_timeout_s, self._ended.set)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        if self.draining:
            return _refusal(503, "the server is shutting down", "ServiceUnavailableError")
        self._requests.add(id(request))
        try:
            try:
                body = await request.json()
                declared, streamed, prompt = body.get("max_tokens"), bool(body.get("stream")), body["prompt"]
            except (ValueError, TypeError, KeyError, AttributeError):
                return _refusal(400, "the body is no JSON object with a prompt", "BadRequestError")
            tokens = MAX_TOKENS if declared is None else declared
            if type(tokens) not in (int, float) or tokens != tokens // 1 or not 1 <= tokens <= MOST_TOKENS:
                problem = f"max_tokens must be a whole number from 1 to {MOST_TOKENS}, got {declared!r}."
                return _refusal(400, problem, "BadRequestError")
            several = isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)  # or its tokens
            if several or body.get("n") not in (None, 1):
                return _refusal(400, "One choice is emulated: give one prompt, and n = 1.", "BadRequestError")
            if body.get("model", self.model.name) != self.model.name:
                return _refusal(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
            return await self._answer(request, len(str(prompt).split()), int(tokens), streamed)
        finally:
            self._leave(request)

    def _leave(self, request: web.Request) -> None:
        """Forgets a request; after SIGTERM the server ends with the last one."""
        self._requests.discard(id(request))
        if self.draining and not self._requests:
            self._ended.set()

    async def _answer(self, request: web.Request, prompt: int, tokens: int, streamed: bool) -> web.StreamResponse:
        """Waits for a place among the running requests, and then for each token."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            due = loop.time() + self.model.first_token_s * self._factor()
            await _until(loop, due)
            self.first_token.add((loop.time() - arrived) * self.model.speed)
            answer = await (self._stream if streamed else self._text)(request, prompt, tokens, due)
        finally:
            self.running -= 1
            self._slots.release()
        self.succeeded += 1
        self.prompt_tokens += prompt
        self.generated_tokens += tokens
        self.end_to_end.add((loop.time() - arrived) * self.model.speed)
        return answer

    def _factor(self) -> float:
        return self.model.load_factor(self.running) / self.model.speed

    async def _text(self, request: web.Request, prompt: int, tokens: int, due: float) -> web.StreamResponse:
        loop, left = asyncio.get_running_loop(), tokens - 1
        for _ in range(WAKES):
            due += left / WAKES * self.model.token_s * self._factor()
            await _until(loop, due)
        usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
        return web.json_response(
            {**self._chunk(f"cmpl-{uuid.uuid4().hex}", " token" * tokens, "length"), "usage": usage}
        )

    async def _stream(self, request: web.Request, prompt: int, tokens: int, due: float) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        name = f"cmpl-{uuid.uuid4().hex}"
        middle = f"data: {json.dumps(self._chunk(name, ' token', None))}\n\n".encode()
        last = f"data: {json.dumps(self._chunk(name, ' token', 'length'))}\n\ndata: [DONE]\n\n".encode()
        for k in range(tokens):
            if k:
                due += self.model.token_s * self._factor()
                await _until(loop, due)
            await response.write(last if k == tokens - 1 else middle)
        await response.write_eof()
        return response

    def _chunk(self, name: str, text: str, reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return {"id": name, "object": "text_completion", "model": self.model.name, "choices": [choice]}

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model.name, "object": "model"}]})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.draining else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        label = f"model_name={json.dumps(self.model.name)}"
        gauges = {
            "vllm:num_requests_running": self.running,
            "vllm:num_requests_waiting": self.waiting,
            "vllm:kv_cache_usage_perc": self.running / self.model.max_num_seqs,
        }
        counters = {
            "vllm:prompt_tokens_total": self.prompt_tokens,
            "vllm:generation_tokens_total": self.generated_tokens,
        }
        lines = [
            line
            for kind, values in (("gauge", gauges), ("counter", counters))
            for name, value in values.items()
            for line in (f"# TYPE {name} {kind}", f"{name}{{{label}}} {value}")
        ]
        success = "vllm:request_success_total"
        lines += [f"# TYPE {success} counter", f'{success}{{{label},finished_reason="length"}} {self.succeeded}']
        lines += self.first_token.lines("vllm:time_to_first_token_seconds", label)
        lines += self.end_to_end.lines("vllm:e2e_request_latency_seconds", label)
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")


async def _until(loop: asyncio.AbstractEventLoop, due: float) -> None:
    left = due - loop.time()
    if left > 0:
        await asyncio.sleep(left)


def _refusal(status: int, message: str, kind: str) -> web.Response:
    error = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return web.json_response({"error": error}, status=status)


def serve(
    model: ServedModel, host: str, port: int, shutdown_timeout_s: float, load_s: float, ready: Callable[[int], None]
) -> None:
    """Loads for some emulated seconds, and serves a model until a signal ends it.

    Args:
        model: What is served.
        host: Address to listen on.
        port: Its port; 0 for a free one.
        shutdown_timeout_s: Seconds to complete requests after SIGTERM; 0 cuts them at once.
        load_s: Emulated seconds before it listens.
        ready: Receives the port when it listens.
    """

    async def run() -> None:
        await asyncio.sleep(load_s / model.speed)
        await InferenceServer(model, shutdown_timeout_s).serve(host, port, ready)

    uvloop.run(run())
