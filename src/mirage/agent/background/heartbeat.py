"""Requests to a URL while the agent works: a monitor that misses them alerts the user."""

from __future__ import annotations

import http.client
import logging
import threading
import urllib.request
from collections.abc import Callable

from mirage.errors import ConfigurationError, shown
from mirage.web_url import is_web_url

log = logging.getLogger("mirage.agent")

EVERY_S = 60.0
"""Least real time between two requests."""

TIMEOUT_S = 10.0


class Heartbeat:
    """Calls a URL after cycles in which Slurm and the store have answered, and only then.

    A request has its own thread: a monitor that hangs delays no chain. An agent that is dead, or without contact to
    Slurm, makes no request.

    Args:
        url: Called with GET, such as a check of healthchecks.io or a push monitor of Uptime Kuma.
        clock: Real seconds.

    Raises:
        ConfigurationError: The URL is not one of http or https.
    """

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        if not is_web_url(url):
            raise ConfigurationError(
                f"--heartbeat (MIRAGE_HEARTBEAT) {shown(url)} is no URL; give one like https://monitor.example.org/ping"
            )
        self.url, self.clock = url, clock
        self._last_s = -EVERY_S
        self._thread: threading.Thread | None = None
        self._failed = False

    def beat(self) -> None:
        """Call the URL, if the last request is a minute old and has ended."""
        now_s = self.clock()
        if now_s - self._last_s < EVERY_S or (self._thread is not None and self._thread.is_alive()):
            return
        self._last_s = now_s
        self._thread = threading.Thread(target=self._request, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for a request that is under way."""
        if self._thread is not None:
            self._thread.join(TIMEOUT_S)

    def _request(self) -> None:
        try:
            with urllib.request.urlopen(self.url, timeout=TIMEOUT_S):
                pass
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._failed:
                log.warning("heartbeat", extra={"detail": f"{self.url} does not answer: {error}"})
            self._failed = True
            return
        if self._failed:
            log.info("heartbeat", extra={"detail": f"{self.url} answers again"})
        self._failed = False
