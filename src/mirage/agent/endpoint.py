"""The upstream file of a proxy, which follows a chain's live job."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.agent.cycle.observations import SAME_START_S
from mirage.agent.cycle.own_jobs import is_of_link
from mirage.agent.model import Chain, Link, LinkState
from mirage.errors import ConfigurationError, shown
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob
from mirage.slurm_words.hostlist import expand_hosts

KINDS = ("nginx", "haproxy", "traefik", "envoy", "litellm")
NOWHERE = "127.0.0.1:9"
"""The discard port, for nginx, which requires a server in an upstream."""

RELOAD_S = 60.0
"""Real seconds that a reload command may take."""

_PORT = re.compile(r"(\d{1,5})(?:\+JOB%(\d{1,5}))?", re.ASCII)
_OURS = re.compile(r"upstream \S+ \{\n    server \S+( down)?;\n\}\n|backend \S+\n(    server live .*\n)?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True, slots=True)
class Port:
    """The port on which a job of a chain serves: fixed, or derived from the number of the job.

    Attributes:
        base: The port of a job whose number is a multiple of the span.
        span: Number of ports from the base on; 1 for a fixed port.
    """

    base: int
    span: int = 1

    @classmethod
    def parse(cls, text: str) -> Port:
        """The port in a text: ``8000``, or ``20000+JOB%20000``.

        Raises:
            ConfigurationError: It is neither, or a port would lie outside 1 to 65535.
        """
        found = _PORT.fullmatch(text)
        port = cls(int(found[1]), int(found[2] or 1)) if found is not None else cls(0)
        last = port.base + port.span - 1
        if 1 <= port.base <= 65_535 < last:
            raise ConfigurationError(f"{shown(text)} reaches port {last}, the last is 65535; give a smaller span")
        if not 1 <= port.base <= last <= 65_535:
            raise ConfigurationError(
                f"{shown(text)} is no port; give one from 1 to 65535, or BASE+JOB%SPAN, as 20000+JOB%20000"
            )
        return port

    def of(self, job: int) -> int:
        """The port of a job, by its number."""
        return self.base + job % self.span

    def __str__(self) -> str:
        return str(self.base) if self.span == 1 else f"{self.base}+JOB%{self.span}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A proxy's file that is to follow a chain.

    Attributes:
        chain: Name of the chain.
        kind: One of ``KINDS``.
        reload: Shell command that makes the proxy read the file again; empty for none.
    """

    chain: str
    kind: str
    port: Port
    file: Path
    reload: str = ""

    def text(self, job: QueuedJob | None) -> str:
        """The text of the file while a job is live, or none."""
        return render(self.kind, self.chain, host_of(job), self.port.of(job.id) if job is not None else 0)

    def target(self, job: QueuedJob | None) -> str:
        """The target of the file, for people."""
        host = host_of(job)
        return f"points to {host}:{self.port.of(job.id)}" if job is not None and host else "points nowhere"


def host_of(job: QueuedJob | None) -> str | None:
    """The first host of a job, which runs its batch script; None without a host."""
    hosts = expand_hosts(job.nodelist) if job is not None and job.nodelist else []
    return hosts[0] if hosts else None


def numbers_of(links: Sequence[Link]) -> list[int]:
    """Numbers of the jobs that may be live, now or next."""
    return [link.job for link in links if link.job != MISSING and link.state is not LinkState.ENDED]


def live_job(links: Sequence[Link], jobs: Mapping[int, QueuedJob], chain: Chain) -> QueuedJob | None:
    """The job that serves now: of the newest link that is ready, else of the oldest that runs.

    Slurm decides which jobs run, whatever the store records: an agent may be late, or dead. The readiness of a run
    before a requeue does not count.

    Args:
        links: Links of the chain, in order.
        jobs: Jobs of our user in the queue, by number.
    """
    serving = [
        (link, jobs[link.job])
        for link in links
        if link.job in jobs and is_of_link(jobs[link.job], chain, link) and _serves(jobs[link.job])
    ]
    ready = [job for link, job in serving if link.ready_s != MISSING and job.start_s <= link.started_s + SAME_START_S]
    return ready[-1] if ready else next((job for _, job in serving), None)


def _serves(job: QueuedJob) -> bool:
    return job.state is JobState.RUNNING and not job.completing and bool(job.nodelist)


def render(kind: str, chain: str, host: str | None, port: int) -> str:
    """The file's text.

    Without a live link HAProxy, Traefik and Envoy answer 503 by themselves; nginx answers 502, and 503 where the server
    that passes to this upstream has ``error_page 502 =503 @down; location @down { return 503; }``. LiteLLM answers that
    it cannot connect.

    Args:
        kind: ``nginx`` (an ``upstream`` block to include), ``haproxy`` (a backend), ``traefik`` (JSON, which is YAML
            too, for its file provider: name the file ``.yml``), ``envoy`` (a cluster in JSON, for its ``cds_config``),
            ``litellm`` (a ``model_list`` in JSON, for an ``include`` of its ``config.yaml``).
        host: None while no link is live.

    Raises:
        ConfigurationError: The kind is unknown, or the host is none.
    """
    if host is not None and not _HOST.fullmatch(host):
        raise ConfigurationError(f"{shown(host)} is not a valid host for a proxy's file")
    if kind == "nginx":
        return f"upstream {chain} {{\n    server {f'{host}:{port}' if host else NOWHERE + ' down'};\n}}\n"
    if kind == "haproxy":  # a name that cannot be resolved yet must not stop HAProxy from starting
        server = f"    server live {host}:{port} check init-addr last,libc,none\n" if host else ""
        return f"backend {chain}\n{server}"
    if kind == "traefik":
        servers = [{"url": f"http://{host}:{port}"}] if host else []
        return json.dumps({"http": {"services": {chain: {"loadBalancer": {"servers": servers}}}}}, indent=2) + "\n"
    if kind == "envoy":
        address = {"address": (host or "").strip("[]"), "port_value": port}
        served = [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": address}}}]}] if host else []
        cluster = {
            "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": chain, "type": "STRICT_DNS",
            "load_assignment": {"cluster_name": chain, "endpoints": served},
        }  # fmt: skip
        return json.dumps({"resources": [cluster]}, indent=2) + "\n"
    if kind == "litellm":  # the server serves the model under the name of the chain: vllm serve --served-model-name
        base = f"http://{f'{host}:{port}' if host else NOWHERE}/v1"
        models = [{"model_name": chain, "litellm_params": {"model": f"hosted_vllm/{chain}", "api_base": base}}]
        return json.dumps({"model_list": models}, indent=2) + "\n"
    raise ConfigurationError(f"there is no proxy {shown(kind)} here; there are {', '.join(KINDS)}")


def check_file(path: Path) -> None:
    """Refuse a device or a pipe, which no file may replace.

    Raises:
        ConfigurationError: It is one.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigurationError(f"cannot write {path}: it is a device or a pipe; name a file")


def check_replaceable(path: Path) -> None:
    """Refuse a file that is no upstream file of ours, such as the proxy's main configuration.

    Raises:
        ConfigurationError: It is one.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:  # it may be written nonetheless, and writing it reports an error
        return
    if text.strip() and not _OURS.fullmatch(text) and not _is_ours(text):
        raise ConfigurationError(
            f"{path} is not a file of mirage endpoint, which would replace all of it; name another file with -o, and "
            "include that one in the proxy's configuration, or move this one away"
        )


def _is_ours(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and len(found) == 1 and next(iter(found)) in ("http", "resources", "model_list")


def write_if_changed(path: Path, text: str) -> bool:
    """Replace the file in one step, if its text differs; returns whether it did.

    A symbolic link stays one: the file that it leads to is replaced.

    Raises:
        ConfigurationError: It cannot be written, or is a device or a pipe, which no file may replace.
    """
    wanted = text.encode()
    try:
        check_file(path)
        if path.exists() and path.read_bytes() == wanted:
            return False
        _replace(Path(os.path.realpath(path)), wanted, mode=path.stat().st_mode & 0o777 if path.exists() else 0o644)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    return True


def _replace(path: Path, wanted: bytes, mode: int) -> None:
    """The file replaced in one step: a reader finds the old text or the new."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            os.fchmod(number, mode)
            file.write(wanted)
            file.flush()
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
