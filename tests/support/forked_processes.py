"""Processes of Mirage as forks of one that has imported it.

A new Python that imports it costs half a second of processor time.

A fork has its own environment, folder and output, and is a process like any other; only its clock cannot be moved by
libfaketime, which a process loads when it starts.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([
    "tests.support.dying_agent", "mirage.agent.hosting.one_pass", "mirage.agent.service",
    "mirage.cli.commands.agent.agent_run", "mirage.cli.commands.agent.agent_start", "mirage.cli.commands.chain.list",
    "mirage.cli.commands.chain.show", "mirage.cli.commands.chain.submit_command", "sqlalchemy.dialects.sqlite",
])  # fmt: skip


class ForkedProcess:
    """A fork that runs a function; the methods are those of ``subprocess.Popen``."""

    def __init__(
        self, run: Callable[..., int | None], *words: str, env: Mapping[str, str], cwd: Path, out: Path, err: Path
    ) -> None:
        cores = os.sched_getaffinity(0)
        name = " ".join((run.__name__, *words))
        self._process = _CONTEXT.Process(target=_run, args=(run, words, dict(env), cwd, out, err, cores), name=name)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(self, *of: object) -> None:
        self.wait()


Process = ForkedProcess | subprocess.Popen[bytes]


def start(
    run: Callable[..., int | None], *words: str, env: Mapping[str, str], cwd: Path, out: Path, err: Path
) -> Process:
    """Start ``mirage``, or the ``main`` of a module that can be run as a program."""
    if "LD_PRELOAD" not in env:
        return ForkedProcess(run, *words, env=env, cwd=cwd, out=out, err=err)
    program = ["-m", "mirage"] if run is mirage else [str(sys.modules[run.__module__].__file__)]
    with out.open("ab") as printed, err.open("ab") as errors:
        return subprocess.Popen([sys.executable, *program, *words], env=env, cwd=cwd, stdout=printed, stderr=errors)


def run_mirage(*words: str, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of ``mirage`` to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        status = start(mirage, *words, env=env, cwd=cwd, out=out, err=err).wait()
        return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())


def mirage(*words: str) -> int:
    """Do what ``mirage`` with these words does, and return its exit status."""
    from mirage.cli import main

    sys.argv = ["mirage", *words]
    return main()


def end_the_fork_server(patience_s: float = 10.0) -> list[str]:
    """End the process that forks; a later start begins another.

    It only ends after all its forks. So those that do not end by themselves are killed; their words are returned.
    """
    end_s, left = time.monotonic() + patience_s, []
    for process in multiprocessing.active_children():
        process.join(max(end_s - time.monotonic(), 0.0))
        if process.is_alive():
            left.append(process.name)
            process.kill()
            process.join()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    return left


def _run(
    run: Callable[..., int | None], words: Sequence[str], env: dict[str, str], cwd: Path, out: Path, err: Path,
    cores: Iterable[int],
) -> None:  # fmt: skip
    """Run the function in a fork as if it were a program of its own."""
    for path, number in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    os.sched_setaffinity(0, cores)
    sys.exit(run(*words))
