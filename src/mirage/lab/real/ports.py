"""Ports of a private cluster: consecutive, free, and below those of outgoing connections."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.lab.real.lab_spec import CONTROLLER, DATABASE, DATABASE_DAEMON

LOWEST_PORT = 10_000


def free_ports(count: int) -> int:
    """Returns the first of ``count`` consecutive ports that are free now.

    Raises:
        ConfigurationError: No such ports were found.
    """
    for _ in range(200):
        first = LOWEST_PORT + secrets.randbelow(_first_ephemeral() - LOWEST_PORT - count)
        if not any(answers(first + k) for k in (CONTROLLER, DATABASE_DAEMON, DATABASE)) and _bindable(first, count):
            return first
    raise ConfigurationError(f"found no {count} consecutive free ports; name the first with --port")


def answers(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _first_ephemeral() -> int:
    """First port that may be taken at any time as the local end of a connection (ip(7))."""
    try:
        words = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()
        return max(int(words[0]), LOWEST_PORT + 2_000)
    except (OSError, ValueError, IndexError):
        return 32_768


def _bindable(first: int, count: int) -> bool:
    for port in range(first, first + count):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
