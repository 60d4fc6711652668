"""Tasks of HyperQueue as an executor, for sites that forbid big arrays: Slurm sees only the workers of HyperQueue."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 – answers of tasks that this process itself has sent out
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mirage.errors import ConfigurationError, SlurmError
from mirage.executors.executor import Made, Piece, Result, dealt
from mirage.whole_file import write_whole

TASKS = 8

POLL_S = 1.0
"""How often answers are looked for."""

PATIENCE_S = 90.0
"""How long an answer may be on its way: a network's file systems show new files late."""

SERVER = "HQ_SERVER_DIR"
"""The variable by which HyperQueue's own commands, too, are told the folder of their server."""

_WAITED_FOR = "waited-for"
"""A folder beside the answers that is there as long as somebody waits for them."""

_PASSED_ON = ("MIRAGE_", "NUMBA_", "PYTHON")
"""How variables begin that tasks get, as jobs of an array would."""


@dataclass(frozen=True, slots=True)
class HyperQueue:
    """Deals pieces to the tasks of one HyperQueue job, the same number to each.

    A task whose worker ends with its allocation is begun again by HyperQueue on another.

    Attributes:
        folder: Where tasks answer; one that all workers see. It is removed when all is done.
        name: Of the job, in ``hq job list``.
        tasks: How many at most.
        sleep: Passes some seconds.
        clock: Seconds that only grow.
    """

    folder: Path
    name: str = "mirage"
    tasks: int = TASKS
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __call__(
        self, begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """As ``Executor`` says, task by task. Tasks that nobody waits for any more end before their next piece.

        Raises:
            ConfigurationError: hyperqueue is absent, or no server answers.
            SlurmError: A task failed, or the server is gone; what was finished stays.
        """
        if not pieces:
            return
        client = _client()
        self.folder.mkdir(parents=True, exist_ok=True)
        answers = Path(tempfile.mkdtemp(prefix="tasks-", dir=self.folder)).resolve()
        parts = dealt(pieces, self.tasks)
        try:
            job = self._submitted(client, answers, [(begin, made_of, part) for part in parts])
            yield from self._as_they_end(client, job, answers, len(parts))
        finally:
            shutil.rmtree(answers / _WAITED_FOR, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _submitted(self, client: Any, answers: Path, told: Sequence[tuple[Any, Any, Any]]) -> Any:
        """The job, on its way; each task is told what begins its work, of what, and its pieces."""
        from hyperqueue import Job

        (answers / _WAITED_FOR).mkdir()
        passed_on = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        job = Job(name=self.name, max_fails=0, default_env=passed_on, default_workdir=Path.cwd())
        for k, (begin, made_of, part) in enumerate(told):
            output = {"stdout": str(answers / f"{k}.out"), "stderr": str(answers / f"{k}.err")}
            job.function(do_task, args=(begin, made_of, part, str(answers / str(k))), **output)
        return _asked(client.submit, job)

    def _as_they_end(self, client: Any, job: Any, answers: Path, n: int) -> Iterator[Any]:
        """Results of tasks, as they answer."""
        awaited, ended_s = set(range(n)), None
        while awaited:
            state = _state(client, job)  # before a look at answers: what has ended has answered
            answered = {k for k in awaited if (answers / str(k)).exists()}
            for k in sorted(answered):
                yield from pickle.loads((answers / str(k)).read_bytes())
            awaited -= answered
            if state["failed"]:
                _raise_failed(client, job)
            if state["completed"] and awaited:
                ended_s = self.clock() if ended_s is None else ended_s
                if self.clock() - ended_s > PATIENCE_S:
                    raise SlurmError(
                        f"job {job.id} of HyperQueue has ended, but {len(awaited)} of its {n} tasks have not answered "
                        f"in {answers}: it was cancelled, or its workers do not see that folder. Run the same "
                        "command again: what is finished is kept"
                    )
            if awaited:
                self.sleep(POLL_S)


def do_task(
    begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece], answer: str
) -> None:
    """What one task does: its pieces, and their results into a file."""
    waited_for = Path(answer).parent / _WAITED_FOR
    work: Callable[[Piece], Result] | None = None
    results = []
    for piece in pieces:
        if not waited_for.exists():
            return
        work = work or begin(made_of)
        results.append(work(piece))
    write_whole(answer, pickle.dumps(results))


class _Told(Exception):
    """Ends the wait for a job as soon as its state is told: the bindings tell it to those alone who wait."""


def _state(client: Any, job: Any) -> dict[str, Any]:
    """How many tasks of a job have ``finished`` and ``failed``, and whether all is ``completed``."""
    told: dict[str, Any] = {}

    def note(jobs: dict[int, dict[str, Any]]) -> NoReturn:
        told.update(jobs[job.id])
        raise _Told

    with suppress(_Told):
        _asked(client.connection.wait_for_jobs, (job.id,), note)
    return told


def _asked(question: Callable[..., Any], *arguments: Any) -> Any:
    """What the server answers.

    Raises:
        SlurmError: It does not.
    """
    try:
        return question(*arguments)
    except _Told:
        raise
    except Exception as error:
        raise SlurmError(
            f"the server of HyperQueue does not answer: {_first_lines(error)}; see that it runs (hq server info), and "
            "run the same command again: what is finished is kept"
        ) from error


def _raise_failed(client: Any, job: Any) -> NoReturn:
    """Tell of the first task that failed.

    Raises:
        SlurmError: Always.
    """
    task, failed = min(_asked(client.get_failed_tasks, job).items())
    why = failed.error.strip().splitlines()[-1]
    raise SlurmError(
        f"task {job.id}@{task} of HyperQueue failed: {why}; its output is in {failed.stderr}. Run the same command "
        "again: what is finished is kept"
    )


def _client() -> Any:
    """A client of the server that HyperQueue's own commands would ask.

    Raises:
        ConfigurationError: hyperqueue is absent, or no server answers.
    """
    try:
        from hyperqueue import Client
        from hyperqueue.task.function import PythonEnv
    except ImportError as error:
        raise ConfigurationError(
            "tasks of HyperQueue need its Python package in the version of its server, and it is absent; "
            "run: pip install hyperqueue==VERSION, as hq --version tells it"
        ) from error
    try:
        return Client(os.environ.get(SERVER), python_env=PythonEnv(sys.executable))
    except Exception as error:
        raise ConfigurationError(
            f"no server of HyperQueue answers ({_first_lines(error)}); start one (hq server start), have it ask for "
            f"workers (hq alloc add slurm), and name its folder in {SERVER} if it is not ~/.hq-server"
        ) from error


def _first_lines(error: Exception) -> str:
    """An error of the bindings in a line, without the stack behind it."""
    told = str(error).partition("Stack backtrace:")[0]
    return " ".join(told.replace("Caused by:", "").split()).rstrip(".")
