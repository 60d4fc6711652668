"""Processes of a private cluster.

Daemons are found by their pid files, jobs by their environment at the start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from mirage.errors import SlurmUnreachable
from mirage.lab.real.lab_spec import LabSpec
from mirage.real_time import wait_until

END_S = 5.0
"""Real seconds from SIGTERM to SIGKILL."""

ROUNDS = 20
"""Number of searches for processes of jobs: one that is just starting may start another."""

_OUTLIVING: list[subprocess.Popen[bytes]] = []
"""Processes that continue to run when nothing refers to them any more."""

_KEEPERS = ("slurmstepd", "slurm_script")


_DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurmstepd")


def daemons_of(directory: Path, names: Collection[str] = _DAEMONS) -> list[int]:
    """Returns the process IDs of the daemons of a cluster, also where its files are gone."""
    files = os.fsencode(directory.absolute() / "etc")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().strip() in names:
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                found += [int(entry.name)] * (files + b"/" in words)
    return sorted(found)


class ClusterProcesses:
    """The processes of one cluster.

    Args:
        environment: Variables they need in addition to our own environment; called at each start.
    """

    def __init__(self, spec: LabSpec, environment: Callable[[], Mapping[str, str]]) -> None:
        self.spec, self._environment = spec, environment

    def environment(self) -> dict[str, str]:
        """Returns our own environment, with the variables of the cluster's programs."""
        return {**os.environ, **self._environment()}

    # -- by name ------------------------------------------------------------------------------------------------

    def pid(self, name: str) -> int | None:
        """Returns the id of a live process of the cluster by its name.

        The id in its file may meanwhile belong to another process, which is ignored.
        """
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.spec.run / f"{name}.pid").read_text(encoding="ascii").strip())
            return pid if lives(pid) and _mark(self.spec) in _environment(pid) else None
        return None

    def alive(self, name: str) -> bool:
        """Whether the process runs."""
        return self.pid(name) is not None

    def end(self, name: str, *, whole_group: bool = False) -> None:
        """End a process, or the group that it leads, by SIGTERM, then by SIGKILL if needed."""
        if (pid := self.pid(name)) is not None:
            kill(-pid if whole_group else pid, signal.SIGTERM)
            if not wait_until(lambda: not lives(pid), END_S):
                kill(-pid if whole_group else pid, signal.SIGKILL)
        (self.spec.run / f"{name}.pid").unlink(missing_ok=True)

    # -- start --------------------------------------------------------------------------------------------------

    def daemon(self, *argv: str) -> None:
        """Start a program that puts itself into the background, and wait until it has.

        Raises:
            SlurmUnreachable: It failed; the end of its output, and the errors in its own log, are quoted.
        """
        log = self.spec.log / f"{argv[0]}.start"
        with log.open("w", encoding="utf-8") as out:
            done = subprocess.run(
                argv, env=self.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
                start_new_session=True, preexec_fn=_ignore_broken_pipes,
            )  # fmt: skip
        if done.returncode:
            own = tail(self.spec.log / f"{argv[-1]}.log", 20).splitlines()  # of a slurmd the name of its node
            errors = [line for line in own if "error:" in line or "fatal:" in line]
            raise SlurmUnreachable(
                f"{argv[0]} did not start (status {done.returncode})", "\n".join([tail(log), *errors])
            )

    def background(self, name: str, *argv: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a program that stays in the foreground, and store its process id."""
        with (self.spec.log / f"{name}.log").open("w", encoding="utf-8") as out:
            child = subprocess.Popen(
                argv, env={**self.environment(), **(environment or {})}, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True, preexec_fn=_ignore_broken_pipes,
            )  # fmt: skip
        _OUTLIVING.append(child)
        (self.spec.run / f"{name}.pid").write_text(str(child.pid), encoding="utf-8")

    def quiet(self, words: tuple[str, ...]) -> bool:
        """Run a program; returns whether it succeeded."""
        return subprocess.run(words, env=self.environment(), capture_output=True, check=False).returncode == 0

    # -- jobs ---------------------------------------------------------------------------------------------------

    def end_jobs(self, daemons: Iterable[int]) -> None:
        """Kill every process of a job, and all its descendants."""
        spared = {*daemons, os.getpid()}
        for _ in range(ROUNDS):
            found = [pid for pid in with_children(self._jobs(spared)) if pid not in spared]
            if not found:
                return
            for pid in found:
                kill(pid, signal.SIGKILL)
            wait_until(lambda pids=found: not any(map(lives, pids)), END_S)  # type: ignore[misc]

    def _jobs(self, spared: set[int]) -> set[int]:
        """Processes of jobs and their parents: their environment or open files point here."""
        mark, logs = _mark(self.spec), f"{self.spec.log}/"
        nodes = {f"SLURMD_NODENAME={name}".encode() for name in self.spec.node_names}
        found = set()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) in spared or not lives(int(entry.name)):
                continue
            with contextlib.suppress(OSError):
                environment = _environment(int(entry.name))
                keeper = (entry / "comm").read_text().strip() in _KEEPERS
                if (mark in environment and (keeper or nodes & environment)) or (keeper and _opens(entry, logs)):
                    found.add(int(entry.name))
        return found


def with_children(roots: set[int]) -> set[int]:
    """Returns processes and all descendants: a job may have cleared its environment."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if roots else ():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))) and fields[0] not in "ZX":
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    found, fresh = set(roots), list(roots)
    while fresh:
        fresh = [child for parent in fresh for child in below.get(parent, ()) if child not in found]
        found.update(fresh)
    return found


def outlive(child: subprocess.Popen[bytes]) -> None:
    """Let a process continue to run when nothing refers to it any more."""
    _OUTLIVING.append(child)


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def kill(pid: int, sign: signal.Signals) -> None:
    """Send a signal to a process that may be gone; to a group if the number is negative."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


def tail(log: Path, lines: int = 5) -> str:
    """Returns the end of a log."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def _stat(pid: int) -> list[str]:
    """State, parent and further fields of a process (proc(5)); empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _mark(spec: LabSpec) -> bytes:
    """Environment variable that identifies all processes of a cluster."""
    return f"SLURM_CONF={spec.conf}".encode()


def _environment(pid: int) -> set[bytes]:
    """Initial environment of a process; raises OSError if it is gone, or another user's."""
    return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


def _opens(process: Path, prefix: str) -> bool:
    return any(os.readlink(file).startswith(prefix) for file in (process / "fd").iterdir())


def _ignore_broken_pipes() -> None:
    """Ignore SIGPIPE, which would end a daemon before it has set its own handlers.

    Slurm resets it for jobs.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
