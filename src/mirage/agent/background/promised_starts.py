"""Outcomes of promised starts: forecasts of ``mirage predict`` that the agent completes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.duration import MINUTE_S
from mirage.errors import StoreError
from mirage.slurm.backend import cluster_of

if TYPE_CHECKING:
    from mirage.slurm.records import AccountedJob, Queue

log = logging.getLogger("mirage.agent")

EVERY_S = 10 * MINUTE_S
"""Time between checks of outcomes: a job that came and ended in between is still among those that ended."""

PATIENCE_S = 0.5
"""Real seconds to wait for a file that ``mirage predict`` is writing; the next check will do as well."""


class PromisedStarts:
    """Promises with outcomes that the agent adds from its snapshots, without calling Slurm.

    Errors never affect chains: each is logged once, and tried again at the next check.

    Args:
        path: The file of promises; nothing is done where it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._checked_s, self._reported = path, -EVERY_S, ""

    def update(self, options: Mapping[str, str] | None, queue: Queue, ended: Iterable[AccountedJob]) -> None:
        """Add the known outcomes of open promises, if a check is due.

        Args:
            options: Options of slurm.conf, keys in lower case, which identify the cluster; None while unknown.
            queue: Output of squeue.
            ended: Jobs that have ended recently.
        """
        if options is None or 0 <= queue.time_s - self._checked_s < EVERY_S:
            return
        self._checked_s = queue.time_s
        try:
            if self.path.exists():
                from mirage.predict.start.promise_file import Promises  # few agents have any

                Promises(self.path, PATIENCE_S).fill_in(cluster_of(options), [*ended, *queue.jobs], queue.time_s)
            self._reported = ""
        except (StoreError, OSError) as error:
            self._report(str(error))
        except Exception as error:
            self._report(f"a fault of Mirage in the promises: {type(error).__name__}: {error}")

    def _report(self, what: str) -> None:
        if what != self._reported:
            log.warning("trouble", extra={"detail": what})
        self._reported = what
