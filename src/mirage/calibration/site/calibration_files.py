"""Location of a cluster's calibration on disk: cluster file, last attempt, and lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, MirageError, SlurmError
from mirage.job_state import MISSING

DONE, REFUSED, FAILED = "done", "refused", "failed"
"""Outcomes: a file was written; this cluster cannot be calibrated for now; an error occurred."""

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class CalibrationAttempt:
    """An attempt to calibrate.

    Attributes:
        began_s: When it began, on the cluster's clock.
        ended_s: ``MISSING`` while it is running, or where it was killed.
        outcome: ``done``, ``refused`` or ``failed``; empty without an end.
        why: The error.
    """

    began_s: int
    ended_s: int = MISSING
    outcome: str = ""
    why: str = ""


class CalibrationFiles:
    """Location of the calibration of one cluster; nothing is created before it is needed.

    Args:
        folder: Folder of all clusters, in the agent's folder.
        cluster: Its unique name, as ``mirage.slurm.backend.cluster_of`` returns it.
    """

    def __init__(self, folder: Path, cluster: str) -> None:
        self.folder, self.cluster = folder, cluster
        self._stem = quote(cluster.replace(":", "-"), safe="@.-_") or "cluster"

    @property
    def file(self) -> Path:
        """The latest cluster file."""
        return self.folder / f"{self._stem}.toml"

    @property
    def choices(self) -> Path:
        """The policies that evaluations chose for links here."""
        return self.folder / f"{self._stem}.policies.json"

    @property
    def log(self) -> Path:
        """Log of the agent's last attempt: its standard error."""
        return self.folder / f"{self._stem}.log"

    @property
    def _attempt_file(self) -> Path:
        return self.folder / f"{self._stem}.attempt.json"

    def attempt(self) -> CalibrationAttempt | None:
        """Returns the last attempt; None where there was none, or it cannot be read."""
        try:
            return CalibrationAttempt(**json.loads(self._attempt_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @contextlib.contextmanager
    def attempting(self, now_s: Callable[[], float]) -> Iterator[None]:
        """Runs one attempt at a time and records its outcome; a killed attempt has no end.

        Args:
            now_s: The cluster's time.

        Raises:
            ConfigurationError: Another process is calibrating, or the folder cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(self._lock())
                self._tidy()
                began = CalibrationAttempt(int(now_s()))
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
        """Takes the lock of attempts, which ends with the process that has it.

        Raises:
            OSError: ``BlockingIOError`` where another process has it.
        """
        number = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(number)

    def _tidy(self) -> None:
        """Removes partial files of an attempt that was killed while it wrote."""
        for part in self.folder.glob(f".{self._stem}.*.part"):
            part.unlink(missing_ok=True)

    def _write(self, attempt: CalibrationAttempt) -> None:
        write_atomically(self._attempt_file, json.dumps(asdict(attempt)).encode(), _MODE)

    def _end(self, began: CalibrationAttempt, now_s: Callable[[], float], outcome: str, why: str) -> None:
        with contextlib.suppress(OSError):  # the error itself is reported anyway
            self._write(CalibrationAttempt(began.began_s, int(now_s()), outcome, why))


def _is_refusal(error: BaseException) -> bool:
    """Whether a retry tomorrow would fail too."""
    return isinstance(error, MirageError) and not isinstance(error, SlurmError)


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, MirageError) else f"{type(error).__name__}: {error}"
