"""Progress files of jobs, as ``mirage emulate train --progress`` writes them.

The files belong to the users of the jobs. A file is read only if it is a regular one of the job's own user, and only
its first bytes. Each is read in a thread of its own: a file system that hangs must not delay returns of loans.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
from concurrent.futures import Future, wait
from functools import partial
from typing import NamedTuple

from mirage.daemon_threads import answer_in_thread
from mirage.slurm.records import QueuedJob

_MOST_BYTES = 65_536
_PATIENCE_S, _SHORT_PATIENCE_S = 1.0, 0.05
_AT_ONCE = 8


class JobProgress(NamedTuple):
    """What a progress file reports.

    Attributes:
        done: Share of the work that is done.
        saved: Share of the work that is saved.
        model: Name of the model; empty if the file has none.
        batch: Total batch size; 0 if the file has none.
    """

    done: float
    saved: float
    model: str = ""
    batch: int = 0


class ProgressFiles:
    """The progress files of jobs; one that cannot be read in time counts as absent.

    A call waits for a second at most, and for a twentieth while other files hang. If eight hang, none is read. A job
    with a file that hangs has no progress; the end of its grace then decides.

    Args:
        pattern: Path of a file, with ``{job}`` and perhaps ``{user}``; empty if jobs have none.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._under_way: dict[int, Future[JobProgress | None]] = {}  # by job

    def read(self, job: QueuedJob) -> JobProgress | None:
        """The progress of a job now; None if it is not known."""
        self._under_way = {number: answer for number, answer in self._under_way.items() if not answer.done()}
        if not self.pattern or job.id in self._under_way or len(self._under_way) >= _AT_ONCE:
            return None
        answer = answer_in_thread(partial(read_progress_file, self.pattern, job), "progress")
        wait([answer], _SHORT_PATIENCE_S if self._under_way else _PATIENCE_S)
        if answer.done():
            return answer.result()
        self._under_way[job.id] = answer  # a late answer is dropped: it is not the progress of now
        return None

    def hangs(self, job: QueuedJob) -> bool:
        """Whether the last reading of a job's file has not ended."""
        return job.id in self._under_way and not self._under_way[job.id].done()


def read_progress_file(pattern: str, job: QueuedJob) -> JobProgress | None:
    """The progress in a job's file; None where there is none that can be used.

    The file has one JSON object with ``step``, ``steps`` and perhaps ``saved_step``, ``model`` and ``batch``.

    Args:
        pattern: Its path, with ``{job}`` and perhaps ``{user}``.
        job: The job.
    """
    path = pattern.replace("{job}", str(job.id)).replace("{user}", job.user)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or pwd.getpwuid(found.st_uid).pw_name != job.user:
                return None
            declared = json.loads(file.read(_MOST_BYTES))
        except (OSError, KeyError, ValueError, RecursionError):
            return None
    if not isinstance(declared, dict):
        return None
    step, steps, saved = (_count(declared.get(name, 0)) for name in ("step", "steps", "saved_step"))
    if steps == 0:
        return None
    model = declared.get("model")
    return JobProgress(
        min(step / steps, 1.0),
        min(saved / steps, 1.0),
        model if isinstance(model, str) else "",
        _count(declared.get("batch")),
    )


def has_saved(before: JobProgress | None, now: JobProgress | None) -> bool:
    """Whether a job has saved at least the work that it had reported at the signal.

    A job that is done is not meant: it ends by itself.

    Args:
        before: Its progress at the signal; None if it was not known.
        now: Its progress now.
    """
    if now is None or not 0 < now.done < 1:
        return False
    return now.saved > before.saved and now.saved >= before.done if before else now.saved >= now.done


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
