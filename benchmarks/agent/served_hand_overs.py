"""Streamed requests through nginx and the hand-overs of an inference server.

    python benchmarks/agent/served_hand_overs.py --requests 10000 -o served-hand-overs.json

Starts a private Slurm on loopback and two chains of emulated vLLM servers, each with an agent and an nginx of its own.
Clients send streamed requests, each on a connection of its own, and count the answers: complete, cut (a stream without
its end) and refused (no connection, or a status other than 200). The links of ``drained`` wait for zero requests in
flight before they end their server (``mirage link drain``). Those of ``default`` end it at the signal, as vLLM does
without ``--shutdown-timeout``. Needs Slurm's programs, nginx, curl and the extra ``emulate``.

With ``--litellm PROGRAM``, clients send to a LiteLLM proxy, and that to nginx. LiteLLM pins versions of packages that
Mirage uses too, so install it in an environment of its own:

    python -m venv litellm && litellm/bin/pip install 'litellm[proxy]'
    python benchmarks/agent/served_hand_overs.py --litellm litellm/bin/litellm --only drained
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.real_time import wait_until

RESULTS = ("complete", "cut", "refused")

CHAINS = ("drained", "default")

TOKENS, FIRST_TOKEN_S, TOKEN_S = 16, 0.5, 0.25
"""One answer takes 4.25 s: longer than a proxy needs to turn."""

GRACE_S = 20

SERVICE = """#!/bin/bash
#SBATCH --output=serve-%j.log
port=$(({base} + SLURM_JOB_ID % 1000))
trap '{drain} kill -TERM $server' USR2
(trap '' USR2; exec {mirage} emulate infer --model serve --port $port --first-token-s {first} --token-s {token}) &
server=$!
until curl -fs localhost:$port/health; do kill -0 $server || exit 1; sleep 0.3; done
{mirage} link ready
echo "$MIRAGE_LINK ready" >> links.log
while kill -0 $server 2> /dev/null; do wait $server; done
echo "$MIRAGE_LINK left" >> links.log
"""
DRAIN = "{mirage} link drain --metrics http://localhost:$port/metrics --for 3s;"

NGINX = """daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/here.conf;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://serve; proxy_http_version 1.1; proxy_buffering off; }}
    }}
}}
"""


KEY = f"sk-{secrets.token_hex(16)}"
"""The key of LiteLLM, which does not start without one."""


class Load:
    """Clients that send streamed requests, a number at a time, and count what became of them.

    Args:
        enough: Whether to end, given the number of requests sent.
    """

    def __init__(self, port: int, clients: int, enough: Callable[[int], bool]) -> None:
        self.url, self.clients, self.enough = f"http://127.0.0.1:{port}/v1/completions", clients, enough
        self.sent = 0
        self.results: Counter[str] = Counter()

    async def run(self) -> None:
        """Sends requests until there are enough."""
        connections = aiohttp.TCPConnector(force_close=True, limit=0)
        headers = {"Authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession(connector=connections, headers=headers) as session:
            await asyncio.gather(*(self._client(session, k) for k in range(self.clients)))

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        await asyncio.sleep(number * TOKENS * TOKEN_S / self.clients)
        while not self.enough(self.sent):
            self.sent += 1
            self.results[await self._request(session)] += 1
            await asyncio.sleep(0.02)

    async def _request(self, session: aiohttp.ClientSession) -> str:
        body = {"model": "serve", "prompt": "a b c", "max_tokens": TOKENS, "stream": True}
        try:
            async with session.post(self.url, json=body) as answer:
                if answer.status != 200:
                    return f"refused: status {answer.status}"
                try:
                    text = await answer.text()
                except aiohttp.ClientError as error:
                    return f"cut: {type(error).__name__}"
        except aiohttp.ClientError as error:
            return f"refused: {type(error).__name__}"
        return "complete" if text.count(" token") == TOKENS and text.endswith("[DONE]\n\n") else "cut"


def play(
    variables: Mapping[str, str], folder: Path, *, drains: bool, ports: tuple[int, int], requests: int, clients: int,
    hand_overs: int = 1, limit_min: int = 2, released_s: int = 4, most: int = 1_000_000, litellm: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Plays requests through the hand-overs of one chain.

    Args:
        variables: The environment of a user of the cluster.
        folder: An empty folder for the files of the chain, its agent and its proxy.
        drains: Whether a link waits for zero requests in flight.
        ports: The proxy's, and the first of the thousand ports of the servers.
        requests: Least number of requests.
        clients: Requests at a time.
        hand_overs: Least number of links that have left.
        limit_min: Time limit of a link, minutes.
        released_s: Seconds from the start of a link to that of the next.
        most: Largest number of requests.
        litellm: The program of a LiteLLM proxy before nginx; None for none.

    Returns:
        Numbers of requests by result, of hand-overs, and the seconds that each link took to drain.
    """
    environment = {**os.environ, **variables, "MIRAGE_HOME": str(folder / "home"), "MIRAGE_STORE": ""}
    mirage, nginx = f"{sys.executable} -m mirage", shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        raise SystemExit("there is no nginx; apt-get install nginx-light")

    def run(*words: str) -> str:
        done = subprocess.run([*mirage.split(), *words], env=environment, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"mirage {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def links(word: str) -> int:
        log = folder / "links.log"
        return log.read_text().count(word) if log.exists() else 0

    drain = DRAIN.format(mirage=mirage) if drains else ""
    words = {"first": FIRST_TOKEN_S, "token": TOKEN_S, "mirage": mirage, "drain": drain, "base": ports[1]}
    (folder / "serve.sh").write_text(SERVICE.format(**words))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=ports[0]))
    (folder / "here.conf").write_text("upstream serve { server 127.0.0.1:9 down; }\n")
    proxy_words = [nginx, "-e", str(folder / "nginx.log"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    # The nodes of the cluster have names that only Slurm knows: nginx reads a copy with the address of all of them.
    copy = f"sed 's/server n[0-9]*:/server 127.0.0.1:/' {folder}/upstream.conf > {folder}/here.conf"
    processes = [subprocess.Popen(proxy_words, stderr=subprocess.DEVNULL)]
    try:
        policy = f"lead:{limit_min / 60 - (released_s + GRACE_S) / 3600:.4f}"
        run("submit", "--no-agent", "--chain", "serve", "-t", str(limit_min), "--policy", policy, "--ready-by-job",
            "--grace", f"{GRACE_S}s", "serve.sh")  # fmt: skip
        run("endpoint", "serve", "--port", f"{ports[1]}+JOB%1000", "-o", "upstream.conf", "--reload",
            f"{copy} && {' '.join(proxy_words)} -s reload", "--install")  # fmt: skip
        with (folder / "agent.log").open("w") as log:
            agent = [*mirage.split(), "agent", "run", "--poll", "2s"]
            processes.append(subprocess.Popen(agent, env=environment, cwd=folder, stderr=log))
        target = folder / "here.conf"
        if not wait_until(lambda: links("ready") > 0 and ":9 " not in target.read_text(), 180, 0.5):
            raise RuntimeError(f"no server is ready: {(folder / 'agent.log').read_text()[-3000:]}")
        wait_until(lambda: False, 1.0, 0.5)  # nginx reads it
        port = ports[0]
        if litellm is not None:
            port = free_port()
            processes.append(litellm_before(litellm, folder, ports[0], port))
        load = Load(port, clients, lambda sent: sent >= most or (sent >= requests and links("left") >= hand_overs))
        asyncio.run(load.run())
        left = links("left")
        run("chain", "stop", "serve")
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(60)
    drained = [re.search(r"drained in (\S+)", log.read_text()) for log in sorted(folder.glob("serve-*.log"))]
    return {
        "requests": load.sent,
        **{kind: sum(n for result, n in load.results.items() if result.startswith(kind)) for kind in RESULTS},
        "hand_overs": left,
        "drained_in": [found[1] for found in drained if found],
        "results": dict(load.results),
    }


def litellm_before(program: str, folder: Path, target: int, port: int) -> subprocess.Popen[bytes]:
    """Starts a LiteLLM proxy, and waits until it answers.

    Args:
        target: The port of the proxy that it sends to.
        port: Its own.

    Raises:
        RuntimeError: It does not answer.
    """
    server = {"model": "hosted_vllm/serve", "api_base": f"http://127.0.0.1:{target}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": "serve", "litellm_params": {**server, "max_retries": 0}}],
        "router_settings": {"num_retries": 0},  # a retry would hide a request that was refused
    }
    (folder / "litellm.yaml").write_text(json.dumps(config))
    words = [program, "--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "litellm.log").open("wb") as log:
        environment = {**os.environ, "LITELLM_MASTER_KEY": KEY}
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=log, stderr=log)

    def answers() -> bool:
        probe = ["curl", "-fs", f"http://127.0.0.1:{port}/health/liveliness"]
        return process.poll() is not None or subprocess.run(probe, capture_output=True).returncode == 0

    if not wait_until(answers, 180, 1.0) or process.poll() is not None:
        process.kill()
        raise RuntimeError(f"LiteLLM does not answer: {(folder / 'litellm.log').read_text()[-3000:]}")
    return process


def play_chains(
    cluster: PrivateCluster, folder: Path, port: Callable[[], int], names: Sequence[str] = CHAINS, **wanted: Any
) -> dict[str, Any]:
    """Plays a chain with draining links, and one with vLLM's default, at the same time."""
    plays = {}
    with ThreadPoolExecutor(2) as pool:
        for k, name in enumerate(names):
            (folder / name).mkdir()
            ports = (port(), 21_000 + 1000 * k)
            plays[name] = pool.submit(
                play, cluster.environment, folder / name, drains=name == "drained", ports=ports, **wanted
            )
        return {name: play.result() for name, play in plays.items()}


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="least number of requests, for each chain")
    parser.add_argument("--clients", type=int, default=100, help="requests at a time, for each chain")
    parser.add_argument("--litellm", metavar="PROGRAM", help="a LiteLLM proxy between the clients and nginx")
    parser.add_argument("--only", choices=CHAINS, help="play one chain alone")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-served-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(exist_ok=True)
        cluster = PrivateCluster(LabSpec(directory=folder / "lab", nodes=8))
        cluster.up()
        try:
            wanted = {"requests": options.requests, "clients": options.clients, "hand_overs": 2, "limit_min": 4,
                      "released_s": 70}  # fmt: skip
            names = CHAINS if options.only is None else (options.only,)
            found = play_chains(cluster, folder, free_port, names, litellm=options.litellm, **wanted)
        finally:
            cluster.purge()
    for chain, figures in found.items():
        print(
            f"{chain:8s} {figures['requests']} requests, {figures['hand_overs']} hand-overs: "
            f"{figures['cut']} cut, {figures['refused']} refused; drained in {', '.join(figures['drained_in']) or '-'}"
        )
    if options.output:
        options.output.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
