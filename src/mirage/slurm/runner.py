"""The runner of Slurm's commands, the one place where they are run."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirage.errors import SlurmUnreachable
from mirage.process import DIE_WITH_PARENT

TIMEOUT_S = 60.0
"""slurmctld answers within its MessageTimeout (10 s by default) or never; a busy one makes clients try again."""

_FIXED = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
_MEANT_FOR_PEOPLE = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")
"""Variables by which users bend what these commands show; sbatch's own are part of what is submitted."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Status and output of a command."""

    status: int
    stdout: str
    stderr: str


class Runner(Protocol):
    """A runner of commands."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> Completed:
        """Run a command.

        Args:
            argv: The program and its words; no shell in between.
            timeout_s: After which it is killed.
            environment: Of the command; by default the runner's own.
            directory: Where to run it.

        Raises:
            SlurmUnreachable: It is not there, or did not end in time.
        """
        ...


@dataclass
class SystemRunner:
    """A runner of this machine's commands.

    A command does not outlive us: an ``sbatch`` left behind by a killed agent would submit when nobody listens.

    Attributes:
        timeout_s: After which a command that says nothing is killed, unless its caller knows better.
        environment: Added to that of this process: where a private cluster is, for example.
        count: How often each program was run.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    count: Counter[str] = field(default_factory=Counter)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> Completed:
        """As ``Runner`` says."""
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        self.count[argv[0]] += 1
        base = dict(os.environ if environment is None else environment) | dict(self.environment) | _FIXED
        try:
            done = subprocess.run(
                list(argv),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=patience_s,
                env={name: value for name, value in base.items() if not name.startswith(_MEANT_FOR_PEOPLE)},
                cwd=directory,
                preexec_fn=DIE_WITH_PARENT,
                check=False,
            )
        except FileNotFoundError as error:
            missing = directory if error.filename == directory else argv[0]
            hint = "is Slurm's bin folder on PATH?" if missing == argv[0] else "the folder is gone"
            raise SlurmUnreachable(f"cannot run {argv[0]}: there is no {missing}; {hint}") from error
        except OSError as error:
            raise SlurmUnreachable(f"cannot run {argv[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            said = (error.stderr or b"").decode(errors="replace")
            raise SlurmUnreachable(f"{argv[0]} did not answer within {patience_s:g} s", said) from error
        return Completed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
