"""Place of a cluster's calibration on disk: the cluster file, the last attempt to make one, and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from mirage.errors import ConfigurationError, MirageError, SlurmError
from mirage.job_state import MISSING
from mirage.whole_file import write_whole

DONE, REFUSED, FAILED = "done", "refused", "failed"
"""Outcomes: a file was written; this cluster cannot be calibrated for now; something went wrong."""

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to calibrate.

    Attributes:
        began_s: When, on the cluster's clock.
        ended_s: ``MISSING`` while it is under way, or where it was killed.
        outcome: ``done``, ``refused`` or ``failed``; empty without an end.
        why: What stood in the way.
    """

    began_s: int
    ended_s: int = MISSING
    outcome: str = ""
    why: str = ""


class SitePlace:
    """Where the calibration of one cluster is kept; nothing is made before it is needed.

    Args:
        folder: Of all clusters, in the agent's folder.
        cluster: Its name among others, as ``mirage.slurm.backend.cluster_of`` gives it.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self.folder, self.cluster = folder, cluster
        self._stem = quote(cluster.replace(":", "-"), safe="@.-_") or "cluster"

    @property
    def file(self) -> Path:
        """The cluster file, as last made."""
        return self.folder / f"{self._stem}.toml"

    @property
    def log(self) -> Path:
        """What the agent's last attempt wrote on its standard error."""
        return self.folder / f"{self._stem}.log"

    @property
    def _attempt_file(self) -> Path:
        return self.folder / f"{self._stem}.attempt.json"

    def attempt(self) -> Attempt | None:
        """The last attempt; None where there was none, or nobody can read of it."""
        try:
            return Attempt(**json.loads(self._attempt_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @contextlib.contextmanager
    def attempting(self, now_s: Callable[[], float]) -> Iterator[None]:
        """One attempt, and no other beside it; its outcome is written down, and a killed one has no end.

        Args:
            now_s: The cluster's time.

        Raises:
            ConfigurationError: Another process is at it, or the folder cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(self._lock())
                self._tidy()
                began = Attempt(int(now_s()))
                self._write(began)
            except BlockingIOError:
                raise ConfigurationError(
                    f"{self.cluster} is being calibrated by another process; wait for it"
                ) from None
            except OSError as error:
                raise ConfigurationError(
                    f"cannot write in {self.folder}: {error.strerror}; name another folder with MIRAGE_HOME"
                ) from error
            try:
                yield
            except BaseException as error:
                self._end(began, now_s, REFUSED if _is_refusal(error) else FAILED, _in_words(error))
                raise
            self._end(began, now_s, DONE, "")

    @property
    def _lock_file(self) -> Path:
        return self.folder / f"{self._stem}.lock"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """The lock of attempts, which goes with the process that has it.

        Raises:
            OSError: ``BlockingIOError`` where another one has it.
        """
        number = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(number)

    def _tidy(self) -> None:
        """Remove what an attempt that was killed while it wrote left behind."""
        for part in self.folder.glob(f".{self._stem}.*.part"):
            part.unlink(missing_ok=True)

    def _write(self, attempt: Attempt) -> None:
        write_whole(self._attempt_file, json.dumps(asdict(attempt)).encode(), _MODE)

    def _end(self, began: Attempt, now_s: Callable[[], float], outcome: str, why: str) -> None:
        with contextlib.suppress(OSError):  # what ended it is told all the same
            self._write(Attempt(began.began_s, int(now_s()), outcome, why))


def _is_refusal(error: BaseException) -> bool:
    """Whether trying again tomorrow is of no use."""
    return isinstance(error, MirageError) and not isinstance(error, SlurmError)


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, MirageError) else f"{type(error).__name__}: {error}"
