"""The runner of Slurm's commands; no other module runs them."""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Timer
from typing import Protocol

from mirage.errors import RequestNotSent, SlurmRefused, SlurmUnreachable
from mirage.process import die_with_me

TIMEOUT_S = 60.0
"""slurmctld answers within its MessageTimeout (10 s by default) or never; a busy one makes clients retry."""

_NO_CLUSTER = re.compile(r"a configuration source|unable to process configuration file|cannot stat file", re.IGNORECASE)
"""What Slurm's commands print where they find no slurm.conf and no server for it."""

_FIXED = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
_MEANT_FOR_PEOPLE = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")
"""Prefixes of variables by which users change the output of these commands."""

_QUERIES = frozenset({"squeue", "sinfo", "sacct", "sacctmgr", "sprio", "sshare"})


@dataclass(frozen=True, slots=True)
class Completed:
    """Status and output of a command."""

    status: int
    stdout: str
    stderr: str


def check_configured(done: Completed, what: str) -> None:
    """Check that a command found a cluster.

    Args:
        done: Its status and output.
        what: The command, for the message.

    Raises:
        RequestNotSent: It found none.
    """
    if done.status and _NO_CLUSTER.search(done.stderr):
        raise RequestNotSent(
            f"{what} found no cluster; run this where `sinfo` answers, as on a login node of the cluster, or set "
            "SLURM_CONF",
            done.stderr,
        )


class Runner(Protocol):
    """A runner of commands."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Completed:
        """Run a command.

        Args:
            argv: The program and its arguments, run without a shell.
            timeout_s: Time after which it is killed.
            environment: The command's whole environment: a job inherits all of it. By default that of this process,
                changed so that a program can read the output.
            directory: Where to run it.
            limits: Soft limits of the command by name (``NOFILE``), as far as this process may set them.

        Raises:
            RequestNotSent: The program does not exist.
            SlurmRefused: It cannot be run in this directory or with these arguments.
            SlurmUnreachable: It did not end in time.
        """
        ...


@dataclass
class SystemRunner:
    """A runner of this machine's commands.

    A command that changes something does not outlive this process: an ``sbatch`` left over from a killed agent would
    submit a job unnoticed. A query may. So it starts without a fork of this process, which costs several times as much
    as the query where the simulator is loaded.

    Attributes:
        timeout_s: Time after which a command without an answer is killed, unless its caller sets another.
        on_slow: Called in a thread while a command has given no answer for ``slow_s`` seconds.
        environment: Added to that of this process: where a private cluster is, for example.
        count: Number of runs of each program.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    on_slow: Callable[[], None] | None = None
    slow_s: float = 10.0
    count: Counter[str] = field(default_factory=Counter)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Completed:
        """Run a command, as ``Runner.run``."""
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        self.count[argv[0]] += 1
        slow = Timer(self.slow_s, self.on_slow) if self.on_slow is not None else None
        if slow is not None:
            slow.daemon = True
            slow.start()
        try:
            done = subprocess.run(
                list(argv),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=patience_s,
                env=self._environment(environment),
                cwd=directory,
                preexec_fn=None if _is_query(argv) and not limits else _before_exec(limits or {}),
                check=False,
            )
        except OSError as error:
            raise _cannot_run(argv[0], directory, error) from error
        except subprocess.TimeoutExpired as error:
            printed = (error.stderr or b"").decode(errors="replace")
            raise SlurmUnreachable(f"{argv[0]} did not answer within {patience_s:g} s", printed) from error
        finally:
            if slow is not None:
                slow.cancel()
        return Completed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def _environment(self, given: Mapping[str, str] | None) -> dict[str, str]:
        if given is not None:
            return {**given, **self.environment}
        mine = {name: value for name, value in os.environ.items() if not name.startswith(_MEANT_FOR_PEOPLE)}
        return {**mine, **self.environment, **_FIXED}


def _is_query(argv: Sequence[str]) -> bool:
    return argv[0] in _QUERIES or (argv[0] == "scontrol" and not {"show", "ping"}.isdisjoint(argv[1:4]))


def _cannot_run(program: str, directory: str | None, error: OSError) -> SlurmUnreachable | SlurmRefused:
    """The error for a program that could not be started.

    A missing directory, or too long arguments, concern this one command; other commands may well run.
    """
    if directory is not None and error.filename == directory:
        return SlurmRefused(f"cannot run {program} in {directory}: {error.strerror}; make the folder again")
    if error.errno == errno.E2BIG:
        return SlurmRefused(f"cannot run {program}: {error.strerror}; give it fewer words, or a smaller environment")
    hint = "; is Slurm's bin folder on PATH?" if isinstance(error, FileNotFoundError) else ""
    return RequestNotSent(f"cannot run {program}: {error.strerror}{hint}")


def _before_exec(limits: Mapping[str, int]) -> Callable[[], None]:
    """What the child process does before exec: set its death signal and its resource limits."""
    wanted = [(getattr(resource, f"RLIMIT_{name}"), soft) for name, soft in limits.items()]
    mortal = die_with_me()

    def prepare() -> None:
        mortal()
        for limit, soft in wanted:
            _, hard = resource.getrlimit(limit)
            most = hard if soft == resource.RLIM_INFINITY or 0 <= hard < soft else soft
            resource.setrlimit(limit, (most, hard))

    return prepare


def soft_limits() -> dict[str, int]:
    """The soft limits of this process by name, which sbatch passes on to the job."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name.removeprefix("RLIMIT_"): resource.getrlimit(getattr(resource, name))[0] for name in names}
