"""The upstream file of a proxy, which follows a chain's live link."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mirage.agent.model import Link, LinkState
from mirage.errors import ConfigurationError, shown
from mirage.job_state import MISSING

KINDS = ("nginx", "haproxy", "traefik")
NOWHERE = "127.0.0.1:9"
"""The discard port, for nginx, which will not have an upstream without a server."""


def live_link(links: Sequence[Link]) -> Link | None:
    """The link that serves now: the newest that is ready, else the oldest that runs."""
    running = [link for link in links if link.state is LinkState.RUNNING]
    ready = [link for link in running if link.ready_s != MISSING]
    return ready[-1] if ready else next(iter(running), None)


def render(kind: str, chain: str, host: str | None, port: int) -> str:
    """The file's text.

    Without a live link HAProxy and Traefik answer 503 by themselves; nginx answers 502, and 503 where the server that
    passes to this upstream says ``error_page 502 =503 @down; location @down { return 503; }``.

    Args:
        kind: ``nginx`` (an ``upstream`` block to include), ``haproxy`` (a backend), ``traefik`` (JSON, which is YAML
            too, for its file provider: name the file ``.yml``).
        host: None while no link is live.

    Raises:
        ConfigurationError: The kind is unknown, or the host is none.
    """
    if host is not None and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]", host):
        raise ConfigurationError(f"{shown(host)} is no host that can stand in a proxy's file")
    if kind == "nginx":
        return f"upstream {chain} {{\n    server {f'{host}:{port}' if host else NOWHERE + ' down'};\n}}\n"
    if kind == "haproxy":  # a name that cannot be resolved yet must not keep HAProxy from starting
        server = f"    server live {host}:{port} check init-addr last,libc,none\n" if host else ""
        return f"backend {chain}\n{server}"
    if kind == "traefik":
        servers = [{"url": f"http://{host}:{port}"}] if host else []
        return json.dumps({"http": {"services": {chain: {"loadBalancer": {"servers": servers}}}}}, indent=2) + "\n"
    raise ConfigurationError(f"there is no proxy {shown(kind)} here; there are {', '.join(KINDS)}")


def write_if_changed(path: Path, text: str) -> bool:
    """Replace the file in one step, if it says something else; whether it did.

    Raises:
        ConfigurationError: It cannot be written.
    """
    wanted = text.encode()
    try:
        if path.exists() and path.read_bytes() == wanted:
            return False
        _replace(path, wanted, mode=path.stat().st_mode & 0o777 if path.exists() else 0o644)
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
