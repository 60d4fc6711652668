"""Slurm's commands on another host, through ssh: nothing is installed there.

One connection carries all commands: ssh's own master process holds it behind a socket (``ControlMaster``). A command
without an answer is "unknown", as with a controller that does not answer: no job is taken for ended because of it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirage.errors import ConfigurationError, RequestNotSent, SlurmRefused, SlurmUnreachable, one_line, shown
from mirage.process import die_with_me
from mirage.slurm.runner import TIMEOUT_S, Completed
from mirage.slurm.sbatch_options import from_environment
from mirage.slurm.text.batch_script import directives

VARIABLE = "MIRAGE_SSH"
"""Variable with the host on which Slurm's commands run."""

LOST = 255
"""Exit status of ssh where it has no connection, or loses it."""

LATE, NOT_FOUND = 124, 127
"""Exit status of timeout(1) at its time, and of a shell without the program."""

ALIVE_S = 30.0
"""Real seconds for the master process to answer, or to connect."""

LONGEST_SOCKET = 108 - 1 - 17
"""Bytes in the path of a socket (sun_path of Linux), less what ssh appends while it makes one."""

_HOST = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:%+-]*")

_PASSED_ON = re.compile(r"MIRAGE_(CHAIN|LINK|TAG|PREVIOUS_JOB|READY_AFTER|GRACE)|SBATCH_\w+")
"""Variables of a submission that the host gets; its own login environment counts for all others."""

_BEGIN = "mirage: end of the text of the login"
_AFTER_LOGIN = f"echo {_BEGIN}; echo {_BEGIN} >&2; "
"""Prints where the output and the errors of a command begin: the login shell may print a text before them."""

_FOR_READING = (
    'unset $(env | sed -n "s/^\\(S\\(QUEUE\\|ACCT\\|INFO\\|CANCEL\\)_[A-Za-z0-9_]*\\)=.*/\\1/p"); '
    "LC_ALL=C; SLURM_TIME_FORMAT=%s; export LC_ALL SLURM_TIME_FORMAT; "
)
"""Makes the output of a command one that a program can read."""

_BOUNDED = 'if command -v timeout >/dev/null; then exec timeout -k 5 "$t" "$@"; else exec "$@"; fi'
"""Ends a command on the host that has lost its connection, so that it does not submit a job an hour later."""

_WHOLE = f's=$(cat && echo .); s=${{s%.}}; [ "$(printf %s "$s" | wc -c)" -eq "$n" ] || exit {LOST}; printf %s "$s"'
"""Passes a script on, if all its bytes arrived: a lost connection ends the input, and sbatch would submit a part."""


@dataclass
class SshRunner:
    """A runner of the commands of a host, as ``mirage.slurm.runner.Runner``.

    A batch script goes to sbatch by standard input. The job runs in the folder of ``--chdir``, by default in the home
    folder of the host, with the environment of a login there, and not with those of this machine.

    Attributes:
        host: As ssh takes it: a name, ``user@name``, ``ssh://user@name:port``, or a host of ``~/.ssh/config``.
        folder: A private folder for the socket of the connection.
        timeout_s: Time after which a command without an answer is killed, unless its caller sets another.
        options: More words for ssh.
        count: Number of runs of each program.

    Raises:
        ConfigurationError: The host is none, or the path of the socket would be too long.
    """

    host: str
    folder: Path
    timeout_s: float = TIMEOUT_S
    options: tuple[str, ...] = ()
    count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host):
            raise ConfigurationError(f"--ssh {shown(self.host)} is no host; give one that `ssh HOST` reaches")
        self._control = self._own_control()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Completed:
        """Run a command, as ``Runner.run``.

        The directory and the limits are those of this machine, and not used.
        """
        patience_s = self.timeout_s if timeout_s is None else timeout_s
        self.count[argv[0]] += 1
        words, script = (list(argv), b"") if environment is None else _without_script(argv, environment)
        self.open_connection()
        text = self.remote_text(words, patience_s, environment, script_bytes=len(script))
        return self._ssh([*self._words(), self.host, text], script, patience_s, argv[0])

    def remote_text(
        self, argv: Sequence[str], patience_s: float, environment: Mapping[str, str] | None, *, script_bytes: int = 0
    ) -> str:
        """The command line for the shell of the host; each word arrives there unchanged.

        Args:
            script_bytes: Length of the script on standard input; 0 for none.
        """
        bounded = f"t={max(round(patience_s), 1)}; {_BOUNDED}"
        if environment is None:
            body = _FOR_READING + bounded
        else:
            passed = {name: value for name, value in environment.items() if _PASSED_ON.fullmatch(name)}
            argv = ["env", *(f"{name}={value}" for name, value in passed.items()), *argv]
            body = f"n={script_bytes}; {_WHOLE} | {{ {bounded}; }}" if script_bytes else bounded
        return f"exec /bin/sh -c {shlex.quote(_AFTER_LOGIN + body)} sh {shlex.join(argv)}"

    def open_connection(self, *, interactive: bool = False) -> bool:
        """Opens the shared connection if there is none; whether there is one now.

        The master process of ssh stays for an hour after the last command, also after the end of this process.

        Args:
            interactive: Whether ssh may prompt at the terminal for a password or a second factor.
        """
        if not self._control:
            return True  # the user's configuration decides
        own = ("-o", "ControlMaster=yes", "-o", "ControlPersist=1h")
        check = ["ssh", *self._control, *self.options, "-O", "check", self.host]
        master = ["ssh", "-fN", *own, *self._words(batch=not interactive)[1:], self.host]
        try:
            return _silently(check, ALIVE_S) or _silently(master, None if interactive else ALIVE_S)
        except OSError as error:
            raise _no_ssh(error) from error
        except subprocess.TimeoutExpired:
            return False  # the command itself reports why

    def login_name(self) -> str:
        """The user's name on the host, from ssh's configuration; no connection is needed."""
        return self._configuration().get("user", "")

    def _words(self, *, batch: bool = True) -> list[str]:
        alive = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20")
        quiet = ("-o", "BatchMode=yes") if batch else ()
        return ["ssh", "-T", "-x", *quiet, *alive, *self._control, *self.options]

    def _own_control(self) -> tuple[str, ...]:
        """The options for the shared connection; none where the user has configured one."""
        if self._configuration().get("controlpath", "none") != "none":
            return ()
        path = f"{self.folder}/%C"
        if len(os.fsencode(path)) + 38 > LONGEST_SOCKET:  # %C becomes 40 digits
            raise ConfigurationError(
                f"the path of a socket in {self.folder} is too long; name a shorter folder with MIRAGE_HOME, or set "
                "ControlPath for this host in ~/.ssh/config"
            )
        return ("-o", f"ControlPath={path}")

    def _configuration(self) -> dict[str, str]:
        """What ``ssh -G`` prints about the host."""
        try:
            done = subprocess.run(
                ["ssh", "-G", *self.options, self.host], capture_output=True, text=True, check=False, timeout=30
            )
        except OSError as error:
            raise _no_ssh(error) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmUnreachable(f"ssh -G {self.host} did not answer") from error
        if done.returncode:
            raise ConfigurationError(f"ssh -G {self.host} failed: {one_line(done.stderr)}; correct ~/.ssh/config")
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)

    def _ssh(self, words: list[str], script: bytes, patience_s: float, program: str) -> Completed:
        try:
            done = subprocess.run(
                words, input=script, capture_output=True, timeout=patience_s + 10, preexec_fn=die_with_me(), check=False
            )
        except OSError as error:
            raise _no_ssh(error) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmUnreachable(
                f"{program} on {self.host} did not answer within {patience_s:g} s", _after_login(error.stderr or b"")
            ) from error
        printed = _after_login(done.stderr)
        if done.returncode == LOST or done.returncode < 0:
            raise SlurmUnreachable(
                f"no connection to {self.host}: whether {program} ran is unknown; does `ssh {self.host}` work?", printed
            )
        if done.returncode == LATE:
            raise SlurmUnreachable(f"{program} on {self.host} did not end within {patience_s:g} s", printed)
        if done.returncode == NOT_FOUND:
            raise RequestNotSent(
                f"{self.host} has no {program} on the PATH of `ssh {self.host} env`; set PATH there in ~/.bashrc",
                printed,
            )
        return Completed(done.returncode, _after_login(done.stdout), printed)


def _after_login(output: bytes) -> str:
    """What a command printed; all of the output where the command did not begin."""
    return output.decode(errors="replace").split(f"{_BEGIN}\n", 1)[-1]


def _without_script(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], bytes]:
    """An sbatch that reads its script from a pipe, and the script; other commands as they are.

    The job keeps the name of the script. sbatch takes arguments for the script only after a file name.

    Raises:
        SlurmRefused: The script cannot be read.
    """
    at = next((k for k, word in enumerate(argv[1:], 1) if not word.startswith("-")), None)
    if argv[0] != "sbatch" or at is None:
        return list(argv), b""
    script = Path(argv[at])
    try:
        text = script.read_bytes()
    except OSError as error:
        raise SlurmRefused(f"cannot read the script {script}: {error.strerror}") from error
    words = [*argv[:at], "/dev/stdin", *argv[at + 1 :]]
    named = "job-name" in {**directives(text), **from_environment(environment)}
    if not named and not any(word.startswith(("--job-name", "-J")) for word in argv[1:at]):
        words.insert(1, f"--job-name={script.name}")
    return words, text


def _silently(words: list[str], timeout_s: float | None) -> bool:
    """Whether a command succeeds; a master process that stays holds no pipe of ours."""
    null = subprocess.DEVNULL
    done = subprocess.run(words, stdin=null, stdout=null, stderr=null, timeout=timeout_s, check=False)
    return done.returncode == 0


def _no_ssh(error: OSError) -> RequestNotSent:
    return RequestNotSent(f"cannot run ssh: {error.strerror}; install the OpenSSH client")
