"""The agent as a service: a background process, or a systemd unit."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirage.agent.monitoring.outage import AgentState
from mirage.agent.paths import Home, folder_of
from mirage.agent.store.lease import has_open, holder_name, is_gone, is_suspended
from mirage.agent.store.protocol import Store
from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, LeaseHeld, StoreError, one_line
from mirage.real_time import wait_until
from mirage.user_folder import user_folder

START_S = 20.0
"""Real seconds that an agent has to begin its work."""

UNIT = "mirage-agent.service"


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """The agent of a store.

    Attributes:
        host: Its host.
        pid: Its process on that host.
        here: Whether that is this host.
        until_s: End of its lease.
    """

    holder: str
    host: str
    pid: int
    here: bool
    until_s: float

    @property
    def suspension(self) -> str:
        """A remark on its process where a signal has stopped it; empty otherwise."""
        if not self.here or not is_suspended(self.pid):
            return ""
        return f"the process is suspended, and does nothing: kill -CONT {self.pid} continues it"


def running_agent(store: Store, now_s: float) -> RunningAgent | None:
    """The agent of a store, if one is running."""
    found = last_agent(store)
    return found if found is not None and found.until_s >= now_s else None


def last_agent(store: Store) -> RunningAgent | None:
    """The agent that had the lease last, even an expired one, unless it is certainly dead.

    An agent of this host that has another file open is none: a copy of a folder has a copy of the lease.
    """
    held = store.lease()
    found = None if held is None else _agent(*held)
    is_copy = found is not None and found.here and store.path is not None and not has_open(found.pid, store.path)
    return None if is_copy else found


def recorded_agent(home: Home) -> RunningAgent | None:
    """The agent of this host that wrote the state in a folder, if it is running.

    It is known even where the store is damaged.
    """
    state = AgentState.read(home.agent_state)
    found = None if state is None else _agent(state.holder, state.written_s)
    return found if found is not None and found.here else None


def _agent(holder: str, until_s: float) -> RunningAgent | None:
    if is_gone(holder):
        return None
    host, pid, _ = [*holder.rsplit(":", 2), "", ""][:3]
    return RunningAgent(holder, host, int(pid) if pid.isdecimal() else 0, host == socket.gethostname(), until_s)


def start(home: Home, environment: Mapping[str, str], now_s: float) -> int:
    """Start an agent in the background, wait for its lease, and return its process id.

    Raises:
        LeaseHeld: Another agent was started at the same time, and runs.
        StoreError: The store cannot be opened, or the agent ended at once; the message quotes the end of its log.
    """
    from mirage.agent.store.sql_store import open_store

    with home.open_log() as log:
        begin = os.fstat(log.fileno()).st_size
        store = open_store(home.store_url)  # first: without a store there must be no child
        child = subprocess.Popen(
            [sys.executable, "-m", "mirage", "agent", "run"],
            env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
        )  # fmt: skip

    def has_lease() -> bool:
        if child.poll() is not None:
            if (other := running_agent(store, now_s)) is not None:
                raise LeaseHeld(f"an agent runs already on {other.host}, process {other.pid}")
            raise StoreError(f"the agent ended at once; {home.log} ends with: {_tail(home.log, begin)}")
        held = store.lease()
        return held is not None and held[0] == holder_name(child.pid)

    try:
        if wait_until(has_lease, START_S):
            return child.pid
    finally:
        store.close()
    raise StoreError(f"the agent (process {child.pid}) has not begun its work within {START_S:g} s; see {home.log}")


def stop(found: RunningAgent, patience_s: float = 30.0) -> None:
    """End an agent of this host cleanly, also a suspended one.

    Raises:
        ConfigurationError: It runs on another host, or does not end.
    """
    if not found.here:
        raise ConfigurationError(f"the agent runs on {found.host} (process {found.pid}); stop it there")
    os.kill(found.pid, signal.SIGCONT)  # a suspended process handles no other signal
    os.kill(found.pid, signal.SIGTERM)
    if wait_until(lambda: is_gone(found.holder), patience_s):
        return
    raise ConfigurationError(
        f"the agent (process {found.pid}) has not ended within {patience_s:g} s; kill -9 {found.pid} ends it, and no "
        "job is lost"
    )


def systemd_unit(environment: Mapping[str, str]) -> str:
    """A systemd user unit for the agent, which runs while the agent's folder exists.

    A shell starts it: systemd itself starts no program with a quote or a backslash in its path. Where the folder was
    moved, a restarted agent would create an empty one.
    """
    folder = str(folder_of(environment).absolute())
    present = [] if "\n" in folder else [f"ConditionPathIsDirectory={folder.replace('%', '%%')}"]
    lines = [
        f"Environment={quoted_in_unit(f'{name}={environment[name]}')}"
        for name in sorted(environment)
        if _is_needed(name)
    ]
    python = quoted_in_unit(sys.executable, "$")
    return "\n".join(
        (
            "[Unit]",
            "Description=Mirage keeps chains of Slurm jobs alive",
            *present,
            "",
            "[Service]",
            f'ExecStart=/bin/sh -c "exec \\"$$0\\" \\"$$@\\"" {python} -m mirage agent run',
            "Restart=always",
            "RestartSec=30",
            *lines,
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        )
    )


def quoted_in_unit(text: str, doubled: str = "") -> str:
    """A quoted word of a unit file (systemd.syntax(7); systemd.unit(5), specifiers).

    Args:
        doubled: A further character to be doubled: ``$`` in a command line (systemd.service(5)).
    """
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        text = text.replace(plain, escaped)
    if doubled:
        text = text.replace(doubled, 2 * doubled)
    return f'"{text}"'


def install_unit(environment: Mapping[str, str]) -> Path:
    """Write the unit, enable it and start it; restart it where it runs already.

    Its environment may name another folder. Only its owner may read it: it may contain a password of the store.

    Raises:
        ConfigurationError: There is no systemd for users on this host; the unit is then as it was before.
    """
    return install_units(environment, {UNIT: systemd_unit(environment)}, UNIT)


def install_units(environment: Mapping[str, str], units: Mapping[str, str], started: str) -> Path:
    """Write units of systemd, then enable and start one of them; returns its file.

    Args:
        units: Texts of the units, by name.
        started: The unit to start.

    Raises:
        ConfigurationError: There is no systemd for users on this host; the units are then as they were before.
    """
    folder = user_units(environment)
    before = {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in units}
    try:
        for name, text in units.items():
            write_atomically(folder / name, text.encode(), 0o600)
        for words in (("daemon-reload",), ("enable", started), ("restart", started)):
            run_systemctl(*words)
    except ConfigurationError:
        for name, known in before.items():
            if known is not None:
                write_atomically(folder / name, known, 0o600)
                continue
            for path in (folder / name, *folder.glob(f"*.wants/{name}")):
                path.unlink(missing_ok=True)
        raise
    return folder / started


def user_units(environment: Mapping[str, str]) -> Path:
    """The folder of the user's systemd units, which is created.

    Raises:
        ConfigurationError: There is no systemd on this host, or no home folder is known.
    """
    if shutil.which("systemctl") is None:
        raise ConfigurationError("there is no systemctl on this host; start the agent with `mirage agent start`")
    folder = user_folder(environment, "XDG_CONFIG_HOME", ".config") / "systemd" / "user"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_systemctl(*words: str) -> None:
    """Run ``systemctl --user``.

    Raises:
        ConfigurationError: It fails.
    """
    done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        remedy = (
            "there is no systemd of this user here, as in cron, in a container or after su: log in directly, or set "
            f"XDG_RUNTIME_DIR=/run/user/{os.getuid()}"
            if "connect to bus" in done.stderr
            else "units of users who are logged out run only after `loginctl enable-linger`"
        )
        raise ConfigurationError(f"systemctl --user {' '.join(words)}: {one_line(done.stderr)}; {remedy}")


def needed_exports(environment: Mapping[str, str]) -> str:
    """The lines of a shell script that set what the agent needs of an environment."""
    return "\n".join(
        f"export {name}={shlex.quote(environment[name])}" for name in sorted(environment) if _is_needed(name)
    )


def _is_needed(name: str) -> bool:
    return name.startswith("MIRAGE_") or name in ("PATH", "SLURM_CONF", "HOME")


def _tail(log: Path, begin: int) -> str:
    """The last lines of a log, from a byte on."""
    try:
        return " / ".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-3:])
    except OSError:
        return "(no log)"
