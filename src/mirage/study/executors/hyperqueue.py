"""HyperQueue tasks as an executor, for sites that forbid big arrays.

Slurm sees only the workers of HyperQueue.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mirage.errors import ConfigurationError, SlurmError
from mirage.process import cleanup_at_signals
from mirage.study.executors.executor import Piece, Result, Setup
from mirage.study.executors.remote_work import RemoteWork

TASKS = 8

SERVER = "HQ_SERVER_DIR"
"""The environment variable that names the server's folder; HyperQueue's own commands read it, too."""

_PASSED_ON = ("MIRAGE_", "NUMBA_", "PYTHON", "XDG_CACHE_HOME", "LD_LIBRARY_PATH")
"""Prefixes of the variables that tasks inherit; the others are those of HyperQueue's worker."""


@dataclass(frozen=True, slots=True)
class HyperQueue:
    """Distributes pieces evenly over the tasks of one HyperQueue job.

    When a worker ends with its allocation, HyperQueue restarts its task on another one; the task resumes with the
    piece that it had not finished.

    Attributes:
        folder: Holds the work and the results; all workers must share it.
        name: Name of the job in ``hq job list``.
        tasks: Largest number of tasks.
        sleep: Sleeps for a number of seconds.
        clock: A monotonic clock, in seconds.
    """

    folder: Path
    name: str = "mirage"
    tasks: int = TASKS
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __call__(
        self, begin: Callable[[Setup], Callable[[Piece], Result]], setup: Setup, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """Does pieces in tasks; see ``Executor``.

        Once the caller stops waiting, tasks end before their next piece.

        Raises:
            ConfigurationError: hyperqueue is not installed, no server answers, or the folder cannot be written.
            SlurmError: A task failed, or the server is gone; finished results stay.
        """
        if not pieces:
            return
        client = _client()
        with cleanup_at_signals() as check:
            work = RemoteWork.create(self.folder, begin, setup, pieces, self.sleep, self.clock)
            try:
                job = self._submitted(client, work)
            except BaseException:
                work.remove()
                raise

            def all_over() -> bool:
                check()
                return _all_over(client, job, work)

            try:
                yield from work.results(all_over)
            finally:
                work.abandon()
        work.remove()

    def _submitted(self, client: Any, work: RemoteWork) -> Any:
        """Submits the job and returns it."""
        from hyperqueue import Job

        passed_on = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        job = Job(name=self.name, max_fails=0, default_env=passed_on, default_workdir=Path.cwd())
        parts = min(self.tasks, work.n)
        for part in range(parts):
            output = {"stdout": str(work.folder / f"{part}.out"), "stderr": str(work.folder / f"{part}.err")}
            job.program(work.command(part, parts), **output)
        return _call(client.submit, job)


class _FirstReport(Exception):
    """Ends the wait for a job at its first report: only the waiting call receives the state."""


def _all_over(client: Any, job: Any, work: RemoteWork) -> bool:
    """Whether all tasks of a job have ended.

    Raises:
        SlurmError: A task failed, or the server does not answer.
    """
    report: dict[str, Any] = {}

    def note(jobs: dict[int, dict[str, Any]]) -> NoReturn:
        report.update(jobs[job.id])
        raise _FirstReport

    with suppress(_FirstReport):
        _call(client.connection.wait_for_jobs, (job.id,), note)
    if report["failed"]:
        _raise_failed(client, job, work)
    return bool(report["completed"])


def _raise_failed(client: Any, job: Any, work: RemoteWork) -> NoReturn:
    """Raises the error of the first task that failed.

    Raises:
        SlurmError: Always.
    """
    task, failed = min(_call(client.get_failed_tasks, job).items())
    why = work.error_of(task) or failed.error.strip().splitlines()[-1]
    raise SlurmError(
        f"task {job.id}@{task} of HyperQueue failed: {why}; its output is in {failed.stderr}. Run the same command "
        "again: finished work is stored"
    )


def _call(request: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the server's answer to a call.

    Raises:
        SlurmError: The server does not answer.
    """
    try:
        return request(*arguments)
    except _FirstReport:
        raise
    except Exception as error:
        raise SlurmError(
            f"the HyperQueue server does not answer: {_first_lines(error)}; check that it runs (hq server info), and "
            "run the same command again: finished work is stored"
        ) from error


def _client() -> Any:
    """A client of the server that HyperQueue's own commands would use.

    Raises:
        ConfigurationError: hyperqueue is not installed, or no server answers.
    """
    try:
        from hyperqueue import Client
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "HyperQueue tasks need its Python package in the version of its server, which is not installed; "
            "run: pip install hyperqueue==VERSION, with the version that hq --version prints"
        ) from error
    try:
        return Client(os.environ.get(SERVER))
    except Exception as error:
        raise ConfigurationError(
            f"no HyperQueue server answers ({_first_lines(error)}); start one (hq server start), let it allocate "
            f"workers (hq alloc add slurm), and set {SERVER} to its folder if that is not ~/.hq-server"
        ) from error


def _first_lines(error: Exception) -> str:
    """An error of the bindings in one line, without its stack trace."""
    text = str(error).partition("Stack backtrace:")[0]
    return " ".join(text.replace("Caused by:", "").split()).rstrip(".")
