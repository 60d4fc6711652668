"""Where a chain's service is now, for the proxy before it: an upstream file that follows the live link."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from mirage.agent.model import Link, LinkState
from mirage.errors import ConfigurationError
from mirage.trace.table import MISSING

KINDS = ("nginx", "haproxy", "traefik")
NOWHERE = "127.0.0.1:9"
"""The discard port: a proxy refuses at once, and answers 503 or 502, while no link is live."""


def live_link(links: Sequence[Link]) -> Link | None:
    """The link that serves now: the newest that is ready, else the newest that runs."""
    running = [link for link in links if link.state is LinkState.RUNNING]
    ready = [link for link in running if link.ready_s != MISSING]
    return (ready or running or [None])[-1]  # type: ignore[list-item]


def render(kind: str, chain: str, host: str | None, port: int) -> str:
    """The file's text.

    Args:
        kind: ``nginx`` (an ``upstream`` block to include), ``haproxy`` (a backend), ``traefik`` (JSON, which is YAML
            too, for its file provider).
        host: None while no link is live.

    Raises:
        ConfigurationError: The kind is unknown.
    """
    address = f"{host}:{port}" if host else NOWHERE
    if kind == "nginx":
        return f"upstream {chain} {{\n    server {address};\n}}\n"
    if kind == "haproxy":
        return f"backend {chain}\n    server live {address}{'' if host else ' disabled'}\n"
    if kind == "traefik":
        servers = [{"url": f"http://{address}"}] if host else []
        return json.dumps({"http": {"services": {chain: {"loadBalancer": {"servers": servers}}}}}, indent=2) + "\n"
    raise ConfigurationError(f"there is no proxy {kind!r} here; there are {', '.join(KINDS)}")


def write_if_changed(path: Path, text: str) -> bool:
    """Replace the file in one step, if it says something else; whether it did.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return False
        new = path.with_name(f".{path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    return True
