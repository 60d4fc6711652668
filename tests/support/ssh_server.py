"""An sshd on loopback with keys of its own, and a host without any sshd."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mirage.real_time import wait_until
from tests.support.postgres import free_port

CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv {variables}
"""
CLIENT = """\
Host cluster
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
"""


SSH = """#!/bin/sh
echo "$*" >> "$FOLDER/calls"
case " $* " in
    *" -G "*) cat "$FOLDER/configuration"; exit ;;
    *" -O check "*) exit $(cat "$FOLDER/master") ;;
    *" -fN "*) echo 0 > "$FOLDER/master"; exit ;;
esac
[ ! -e "$FOLDER/status" ] || { echo "lost" >&2; exit $(cat "$FOLDER/status"); }
for last; do :; done
echo Welcome; printf "No news." >&2
cd "$FOLDER/home" && through=$(cat "$FOLDER/cut" 2> /dev/null)
exec $through env -i FROM=login PATH="$FOLDER/there:/usr/bin:/bin" SQUEUE_STATES=all sh -c "$last"
"""


@dataclass
class SshServer:
    """A running sshd.

    Attributes:
        config: A configuration for ssh in which the server is the host ``cluster``.
    """

    folder: Path
    config: Path
    program: str
    process: subprocess.Popen[bytes] = field(init=False)

    def masters(self) -> list[int]:
        """Processes of ssh that hold a shared connection of this configuration."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(self.config) in words and b"-fN" in words:
                found.append(int(entry.name))
        return found

    def sessions(self) -> list[int]:
        """Processes of the server with a connection each; none where it does not run."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [int(child) for child in children.read_text().split()] if self.process.poll() is None else []

    def end(self) -> None:
        """Ends the server and its connections."""
        sessions = self.sessions()
        self.process.kill()
        self.process.wait(30)
        kill_all(sessions)

    def start(self) -> None:
        """Starts it, at first or again."""
        words = [self.program, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def end_connections(self) -> None:
        """Kills the masters, which hold the connections of the clients."""
        kill_all(self.masters())


def kill_all(pids: Iterable[int]) -> int:
    """Kills processes; returns the number of those that existed."""
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


@contextmanager
def ssh_server(folder: Path, variables: Mapping[str, str]) -> Iterator[SshServer]:
    """An sshd for this user on a high port of loopback.

    Args:
        folder: For its keys; private.
        variables: The environment of its sessions.
    """
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("there is no sshd; apt-get install openssh-server openssh-client")
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # of its privilege separation
    for name in ("host_key", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    (folder / "authorized_keys").write_text((folder / "key.pub").read_text())
    port = free_port()
    known = {"folder": folder, "port": port, "user": getpass.getuser()}
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    pairs = " ".join(f'"{name}={value}"' for name, value in variables.items())
    (folder / "sshd_config").write_text(CONFIG.format(variables=pairs, **known))
    (folder / "config").write_text(CLIENT.format(**known))
    server = SshServer(folder, folder / "config", program)
    server.start()
    try:
        probe = ["ssh", "-F", str(server.config), "-o", "BatchMode=yes", "cluster", "true"]
        wait_until(lambda: subprocess.run(probe, capture_output=True).returncode == 0, 30, 0.1)
        yield server
    finally:
        server.end()
        server.end_connections()


def login_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts an ``ssh`` on PATH that runs commands in a login shell of another host.

    Args:
        folder: Gets ``calls``, the command lines of ssh; ``home`` and ``there``, the home folder and the programs of
            the host; ``status``, if a test writes it, is the exit status of ssh, and ``cut`` a program that runs the
            command of the host.

    Returns:
        The folder.
    """
    for name in ("here", "there", "home"):
        (folder / name).mkdir()
    (folder / "here" / "ssh").write_text(SSH)
    (folder / "here" / "ssh").chmod(0o755)
    (folder / "configuration").write_text("user eve\nhostname login1\n")
    (folder / "master").write_text("255")
    monkeypatch.setenv("PATH", f"{folder / 'here'}:{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(folder))
    return folder
