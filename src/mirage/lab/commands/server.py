"""Server of a simulated Slurm, and commands on PATH that query it.

    with served_slurm(VirtualSlurm(simulation)) as served:
        slurm = SlurmClient(SystemRunner(served.environment), clock=served.slurm.clock)

The commands, ``sbatch``, ``squeue`` and others, take the options that Mirage, its tests and interactive users need, and
reject others with getopt's messages. Time passes on ``fake-slurm advance 2h`` or when ``served.slurm.sleep`` is called.
Tests serve a subclass that fails on request.
"""

from __future__ import annotations

import contextlib
import getopt
import json
import os
import shlex
import shutil
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirage.duration import parse_duration_s
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable
from mirage.lab.commands.control_commands import sbatch, scancel, scontrol
from mirage.lab.commands.invocation import CommandOutput, Failed, Invocation, WantsScript, getopt_words
from mirage.lab.commands.query_commands import sacct, sinfo, sprio, squeue
from mirage.lab.sockets import require_short_path
from mirage.lab.virtual.virtual_slurm import VirtualSlurm

STEERING = "fake-slurm"
SOCKET, BIN, SPOOL = "slurm.sock", "bin", "spool"

VERSION = "slurm-wlm 22.05.8"

COMMANDS: dict[str, Callable[[VirtualSlurm, Invocation], str | CommandOutput]] = {
    "sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel, "scontrol": scontrol, "sinfo": sinfo,
    "sprio": sprio,
}  # fmt: skip


@dataclass
class CommandExecutor:
    """The simulated Slurm, executing one command at a time.

    Args:
        slurm: The simulated Slurm.
        spool: Where scripts are stored that are not files.
    """

    slurm: VirtualSlurm
    spool: Path

    def __post_init__(self) -> None:
        self.lock = threading.Lock()

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answers one command."""
        with self.lock:
            command = Invocation(
                question["words"], question["directory"], self.spool, question["environment"], question.get("script")
            )
            try:
                if question["name"] == STEERING:
                    return asdict(_steer(self.slurm, command))
                return asdict(answer(self.slurm, question["name"], command))
            except WantsScript:
                return {"wants_script": True}


class Served:
    """A server that runs in a thread of this process.

    Attributes:
        slurm: The Slurm that it serves, for tests that make it fail.
        directory: Its socket and commands.
    """

    def __init__(self, site: CommandExecutor, directory: Path) -> None:
        self.site, self.slurm, self.directory = site, site.slurm, directory
        place_commands(directory)
        self._server = _Server(str(directory / SOCKET), _Handler)
        self._server.site = site
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that a client process needs."""
        return environment(self.directory)

    def close(self) -> None:
        """Stops the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        (self.directory / SOCKET).unlink(missing_ok=True)


@contextlib.contextmanager
def served_slurm(slurm: VirtualSlurm) -> Iterator[Served]:
    """Serves a simulated Slurm for the duration of the block."""
    directory = Path(tempfile.mkdtemp(prefix="mirage-"))
    try:
        served = Served(CommandExecutor(slurm, directory / SPOOL), directory)
        try:
            yield served
        finally:
            served.close()
    finally:
        shutil.rmtree(directory)


def place_commands(directory: Path) -> None:
    """Puts the commands into a directory's ``bin``.

    Raises:
        ConfigurationError: The path is too long for a socket.
    """
    require_short_path(directory, directory / SOCKET)
    (directory / SPOOL).mkdir(parents=True, exist_ok=True)
    (directory / BIN).mkdir(exist_ok=True)
    client = shlex.join(
        [sys.executable, "-SE", str(Path(__file__).with_name("command_client.py")), str(directory / SOCKET)]
    )
    for name in (*COMMANDS, STEERING):
        path = directory / BIN / name
        path.write_text(f'#!/bin/sh\nexec {client} {name} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


def environment(directory: Path) -> dict[str, str]:
    """Returns the variables that put a directory's commands first."""
    return {"PATH": f"{directory / BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Handles one request."""
        try:
            question = json.loads(self.rfile.readline())
        except ValueError:  # not one of our commands
            return
        with contextlib.suppress(BrokenPipeError):
            self.wfile.write(json.dumps(self.server.site.answer(question)).encode())  # type: ignore[attr-defined]


class _Server(socketserver.UnixStreamServer):
    site: CommandExecutor


def _steer(slurm: VirtualSlurm, command: Invocation) -> CommandOutput:
    """``fake-slurm now | advance TIME``: ``3600`` (here seconds) or a duration with a unit."""
    match list(command.words):
        case ["now"]:
            pass
        case ["advance", text]:
            try:
                slurm.sleep(int(text) if text.isdecimal() else parse_duration_s(text))
            except ConfigurationError as error:
                return CommandOutput("", f"{STEERING}: {error}\n", 1)
        case _:
            return CommandOutput("", f"usage: {STEERING} now | advance TIME\n", 2)
    return CommandOutput(f"{slurm.now_s}\n")


def answer(slurm: VirtualSlurm, name: str, command: Invocation) -> CommandOutput:
    """Executes a command.

    Raises:
        WantsScript: The command reads its script from its standard input.
    """
    try:
        if set(command.words) & {"-V", "--version"}:
            return CommandOutput(VERSION + "\n")
        result = COMMANDS[name](slurm, command)
        return result if isinstance(result, CommandOutput) else CommandOutput(result)
    except Failed as error:
        return CommandOutput("", error.words + "\n", error.status)
    except getopt.GetoptError as error:
        return CommandOutput("", f'{name}: {getopt_words(error)}\nTry "{name} --help" for more information\n', 1)
    except (SlurmRefused, SlurmUnreachable) as error:
        lost = isinstance(error, SlurmUnreachable) and name == "sbatch"
        before = "sbatch: error: Batch job submission failed: " if lost else ""
        return CommandOutput("", f"{before}{error.stderr}\n", 1)
    except ConfigurationError as error:
        return CommandOutput("", f"{name}: error: {error}\n", 1)
