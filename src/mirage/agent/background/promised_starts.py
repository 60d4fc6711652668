"""Outcomes of promised starts: what ``mirage predict`` said, and the agent sees come true."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mirage.duration import MINUTE_S
from mirage.errors import StoreError
from mirage.slurm.backend import cluster_of

if TYPE_CHECKING:
    from mirage.slurm.values import AccountedJob, Queue

log = logging.getLogger("mirage.agent")

EVERY_S = 10 * MINUTE_S
"""Outcomes are looked for so often: a job that has come and gone in between is still among those that ended."""

PATIENCE_S = 0.5
"""Real seconds to wait for a file that ``mirage predict`` is writing; the next look will do as well."""


class PromisedStarts:
    """Promises whose outcomes the agent fills in from what it sees anyway; Slurm is not asked for them.

    Chains never notice: whatever goes wrong here is told once in the log, and tried again at the next look.

    Args:
        path: The file of promises; where there is none, nothing is done.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._looked_s, self._told = path, -EVERY_S, ""

    def look(self, options: Mapping[str, str] | None, queue: Queue, ended: Iterable[AccountedJob]) -> None:
        """Fill in what is known of open promises, if it is time to.

        Args:
            options: Of slurm.conf, keys in lower case, which tell the cluster; None where they are not known yet.
            queue: What squeue showed.
            ended: Jobs that have ended lately.
        """
        if options is None or 0 <= queue.time_s - self._looked_s < EVERY_S:
            return
        self._looked_s = queue.time_s
        try:
            if self.path.exists():
                from mirage.predict.start.promises import Promises  # few agents have any

                Promises(self.path, PATIENCE_S).fill_in(cluster_of(options), [*ended, *queue.jobs], queue.time_s)
            self._told = ""
        except (StoreError, OSError) as error:
            self._tell(str(error))
        except Exception as error:
            self._tell(f"a fault of Mirage in the promises: {type(error).__name__}: {error}")

    def _tell(self, what: str) -> None:
        if what != self._told:
            log.warning("trouble", extra={"detail": what})
        self._told = what
