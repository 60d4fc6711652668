"""Ports of a private cluster: consecutive, free, and below those of outgoing connections."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.lab.real.lab_spec import CONTROLLER, DATABASE, DATABASE_DAEMON

LOWEST_PORT = 10_000

_BLOCK = 64
"""Ports that are reserved together."""

_RESERVED: list[socket.socket] = []
"""They reserve the ports that this process chose last."""


def free_ports(count: int) -> int:
    """Returns the first of ``count`` consecutive ports that are free now.

    No other process of this machine gets them until this one ends or chooses others: clusters that start at the same
    time have different ports.

    Raises:
        ConfigurationError: No such ports were found.
    """
    while _RESERVED:
        _RESERVED.pop().close()
    for _ in range(200):
        first = LOWEST_PORT + secrets.randbelow(_first_ephemeral() - LOWEST_PORT - count)
        answered = any(answers(first + k) for k in (CONTROLLER, DATABASE_DAEMON, DATABASE))
        if not answered and _bindable(first, count) and _reserve(first, count):
            return first
    raise ConfigurationError(f"found no {count} consecutive free ports; name the first with --port")


def check_free(ports: Iterable[int]) -> None:
    """Check that no program of this machine uses any of the ports.

    Raises:
        ConfigurationError: One is in use.
    """
    for port in ports:
        if not _bindable(port, 1):
            raise ConfigurationError(f"port {port} is in use; give another first port with --port, or leave --port out")


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
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection does not count
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def _reserve(first: int, count: int) -> bool:
    """Whether no other process has reserved the ports; they are reserved then.

    An abstract socket belongs to the network namespace, as ports do, and ends with its process (unix(7)).
    """
    taken = []
    for block in range(first // _BLOCK, (first + count - 1) // _BLOCK + 1):
        taken.append(socket.socket(socket.AF_UNIX))
        try:
            taken[-1].bind(f"\0mirage-lab-ports-{block}")
        except OSError:
            for one in taken:
                one.close()
            return False
    _RESERVED.extend(taken)
    return True
