"""Start and stop a private cluster: munge, MariaDB, slurmdbd, slurmctld and one slurmd a node.

cluster = PrivateCluster(LabSpec(directory=Path("lab"), nodes=8, speed=60))
cluster.up()
cluster.run("sinfo")
cluster.purge()
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from mirage.errors import ConfigurationError, SlurmUnreachable
from mirage.lab.real.packages import PATH, faketime_library, require
from mirage.lab.real.spec import (
    CONTROLLER,
    DATABASE,
    DATABASE_DAEMON,
    NODES,
    REST,
    LabSpec,
    gres_conf,
    slurm_conf,
    slurmdbd_conf,
)  # fmt: skip
from mirage.patience import wait_until

_OUTLIVING: list[subprocess.Popen[bytes]] = []
"""Processes that are to run on when nobody refers to them any more."""

LOWEST_PORT = 10_000
END_S = 5.0
"""Real seconds from SIGTERM to SIGKILL."""

_KILLED_LAST = ("slurmrestd", "slurmctld", "slurmdbd", "mariadb", "munged", "clock")


class PrivateCluster:
    """A real Slurm in one directory.

    Args:
        spec: What it is to be like; where the directory holds a cluster already, that one's own description counts.
    """

    def __init__(self, spec: LabSpec) -> None:
        directory = spec.directory.resolve()
        kept = directory / "spec.json"
        if kept.exists():
            known = json.loads(kept.read_text(encoding="utf-8"))
            spec = LabSpec(**{**known, "directory": directory, "extra": tuple(known["extra"])})
        self.spec = replace(spec, directory=directory)

    # -- life -------------------------------------------------------------------------------------------------

    def up(self, patience_s: float = 120.0) -> None:
        """Start whatever is not running, and wait until every node is idle.

        Raises:
            ConfigurationError: A program is missing, or a port is taken.
            SlurmUnreachable: A daemon did not start; the end of its log is quoted.
        """
        require(self.spec)
        if not (self.spec.directory / "spec.json").exists():
            self._write()
        self._start_clock()
        self._start_munge()
        if self.spec.accounting:
            self._start_database()
        self.start_controller()
        for name in self.spec.node_names:
            (self.spec.state / name).mkdir(exist_ok=True)
            if not self._alive(name):
                self._daemon("slurmd", "-N", name)
        if self.spec.rest and not self._alive("slurmrestd"):
            self._start_rest()
        self._until(self._all_idle, patience_s, "all nodes are idle", self.spec.log / "slurmctld.log")

    def down(self) -> None:
        """End every process of the cluster; what it remembers stays."""
        if not self.spec.run.is_dir():
            return
        self._end_jobs()
        for name in (*self.spec.node_names, *_KILLED_LAST):
            if (found := self._pid(name)) is not None:
                _end(found, whole_group=name == "clock")
            (self.spec.run / f"{name}.pid").unlink(missing_ok=True)
        self._end_jobs()  # those that the end of the others let start
        self._forget_clock()

    def purge(self) -> None:
        """End it and remove its directory."""
        self.down()
        shutil.rmtree(self.spec.directory, ignore_errors=True)

    def kill_controller(self) -> None:
        """``kill -9`` slurmctld."""
        if (pid := self._pid("slurmctld")) is not None:
            _kill(pid, signal.SIGKILL)
            self._until(lambda: not _lives(pid), 10, "slurmctld is gone", self.spec.log / "slurmctld.log")

    def start_controller(self) -> None:
        """Start slurmctld where it does not run."""
        if not self._alive("slurmctld"):
            self._daemon("slurmctld")
        self._until(
            lambda: _answers(self.spec.port + CONTROLLER), 30, "slurmctld answers", self.spec.log / "slurmctld.log"
        )

    def running(self) -> dict[str, int]:
        """Process numbers of what runs, by name."""
        names = (*_KILLED_LAST, *self.spec.node_names)
        return {name: pid for name in names if (pid := self._pid(name)) is not None}

    # -- use --------------------------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be a client, on the cluster's clock."""
        return {"SLURM_CONF": str(self.spec.etc / "slurm.conf"), "PATH": PATH, **self._clock()}

    @property
    def rest_url(self) -> str:
        """Where slurmrestd listens; ``token`` opens it."""
        return f"http://127.0.0.1:{self.spec.port + REST}"

    def token(self) -> str:
        """A JSON web token of the present user, good for a day."""
        return self.run("scontrol", "token", "lifespan=86400").strip().partition("=")[2]

    def run(self, *argv: str, timeout_s: float = 60.0) -> str:
        """Run a client; what it printed.

        Raises:
            SlurmUnreachable: It failed; its words are quoted.
        """
        try:
            done = subprocess.run(
                argv, env=self._own_environment(), capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise SlurmUnreachable(f"{argv[0]} did not answer within {timeout_s:g} s") from error
        if done.returncode:
            raise SlurmUnreachable(f"{argv[0]} failed with status {done.returncode}", done.stderr or done.stdout)
        return done.stdout

    # -- pieces -----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        spec, user = self.spec, getpass.getuser()
        for folder in (spec.etc, spec.run, spec.log, spec.state / "ctld", spec.directory / "dev"):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (spec.directory, spec.run, spec.log):
            folder.chmod(0o755)
        self.spec = spec = replace(spec, port=spec.port or free_ports(NODES + spec.nodes + 1))
        _secret(spec.etc / "munge.key", 1024)
        _secret(spec.state / "jwt.key", 32)
        device = self._devices()
        files = {
            "slurm.conf": slurm_conf(spec, user),
            "gres.conf": gres_conf(spec, device),
            "cgroup.conf": "CgroupPlugin=disabled\n" if self._version() >= 23 else "",
            "slurmdbd.conf": slurmdbd_conf(spec, user),
        }
        for name, text in files.items():
            path = spec.etc / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600 if name == "slurmdbd.conf" else 0o644)
        (spec.directory / "spec.json").write_text(json.dumps(asdict(spec), default=str), encoding="utf-8")

    def _version(self) -> int:
        done = subprocess.run(
            ["slurmctld", "-V"], env={**os.environ, "PATH": PATH}, capture_output=True, text=True, check=False
        )
        digits = done.stdout.split()[-1].partition(".")[0] if done.stdout.split() else ""
        return int(digits) if digits.isdecimal() else 0

    def _devices(self) -> str:
        """Stem of the files that stand for GPUs: clones of /dev/null where we may make them, else consoles."""
        if os.getuid() != 0:
            return "/dev/tty"
        stem = self.spec.directory / "dev" / "gpu"
        for k in range(self.spec.gpus):
            path = Path(f"{stem}{k}")
            if not path.exists():
                try:
                    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
                except PermissionError:
                    return "/dev/tty"
        return str(stem)

    def _clock(self) -> dict[str, str]:
        """The compressed clock: one beginning for all processes, kept in shared memory."""
        if self.spec.speed == 1:
            return {}
        shared = self.spec.run / "clock.shared"
        return {
            "LD_PRELOAD": str(faketime_library()),
            "FAKETIME": f"+0 x{self.spec.speed}",
            "FAKETIME_SHARED": shared.read_text(encoding="utf-8").strip() if shared.exists() else "",
        }

    def _start_clock(self) -> None:
        """The shared beginning lives as long as the process that made it."""
        if self.spec.speed == 1 or self._alive("clock"):
            return
        shared = self.spec.run / "clock.shared"
        shared.unlink(missing_ok=True)
        keep = (
            f'echo "$FAKETIME_SHARED" > {shared}.new; mv {shared}.new {shared}; unset LD_PRELOAD; exec sleep infinity'
        )
        keeper = subprocess.Popen(
            ["faketime", "-f", f"+0 x{self.spec.speed}", "sh", "-c", keep],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        _OUTLIVING.append(keeper)
        (self.spec.run / "clock.pid").write_text(str(keeper.pid), encoding="utf-8")
        self._until(shared.exists, 10, "the clock runs", shared)

    def _forget_clock(self) -> None:
        shared = self.spec.run / "clock.shared"
        if shared.exists():
            for name in shared.read_text(encoding="utf-8").split():
                for file in (Path("/dev/shm") / name.lstrip("/"), Path("/dev/shm") / f"sem.{name.lstrip('/')}"):
                    file.unlink(missing_ok=True)
            shared.unlink()

    def _start_munge(self) -> None:
        if self._alive("munged"):
            return
        spec = self.spec
        self._daemon(
            "munged", f"--key-file={spec.etc}/munge.key", f"--socket={spec.run}/munge.sock",
            f"--pid-file={spec.run}/munged.pid", f"--log-file={spec.log}/munged.log",
            f"--seed-file={spec.state}/munge.seed", "--num-threads=4", "--force",
        )  # fmt: skip
        self._until((spec.run / "munge.sock").exists, 10, "munged answers", spec.log / "munged.log")

    def _start_database(self) -> None:
        spec, first = self.spec, not (self.spec.state / "mysql" / "mysql").is_dir()
        if not self._alive("mariadb"):
            if first:
                self._daemon(
                    "mariadb-install-db", "--no-defaults", f"--datadir={spec.state}/mysql", "--skip-test-db",
                    "--auth-root-authentication-method=normal", f"--user={getpass.getuser()}",
                )  # fmt: skip
            self._background(
                "mariadb", "mariadbd", "--no-defaults", f"--datadir={spec.state}/mysql",
                f"--socket={spec.run}/mysql.sock", f"--port={spec.port + DATABASE}", "--bind-address=127.0.0.1",
                f"--pid-file={spec.run}/mariadbd.pid", f"--user={getpass.getuser()}", "--innodb-buffer-pool-size=128M",
                "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin",
            )  # fmt: skip
            self._until((spec.run / "mysql.sock").exists, 60, "MariaDB answers", spec.log / "mariadb.log")
            self._sql(
                "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm';"
                "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'slurm';"
                "CREATE DATABASE IF NOT EXISTS slurm_acct;"
                "GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1'; GRANT ALL ON slurm_acct.* TO slurm@localhost;"
            )
        if not self._alive("slurmdbd"):
            self._daemon("slurmdbd")
        log = spec.log / "slurmdbd.log"
        self._until(lambda: _answers(spec.port + DATABASE_DAEMON), 60, "slurmdbd answers", log)
        if not (spec.state / "accounts").exists():
            self._accounts()
            (spec.state / "accounts").touch()

    def _start_rest(self) -> None:
        """Slurm's REST interface, on TCP, for those who bring a token."""
        listens = f"127.0.0.1:{self.spec.port + REST}"
        allowed = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_user_check"}  # it is told not to run as root
        conf = str(self.spec.etc / "slurm.conf")
        parts = ["openapi/v0.0.38", "openapi/dbv0.0.38"] if self._version() < 23 else ["slurmctld", "slurmdbd"]
        served = ",".join(parts[: 1 + self.spec.accounting])
        argv = ["slurmrestd", "-f", conf, "-a", "rest_auth/jwt", "-s", served, listens]
        self._background("slurmrestd", *argv, environment=allowed)
        self._until(lambda: _answers(self.spec.port + REST), 30, "slurmrestd answers", self.spec.log / "slurmrestd.log")

    def _accounts(self) -> None:
        """One cluster, two accounts, three QOS of which each may preempt those below."""
        user = getpass.getuser()
        steps = (
            "add cluster lab",
            "add qos low,normal,high",
            "modify qos low set priority=0 preemptmode=requeue",
            "modify qos normal set priority=100 preempt=low preemptmode=requeue",
            "modify qos high set priority=1000 preempt=low,normal preemptmode=requeue",
            "add account research cluster=lab fairshare=10",
            "add account serving cluster=lab fairshare=10",
            f"add user {user} account=research,serving defaultaccount=research adminlevel=admin",
            f"modify user {user} set qos=low,normal,high defaultqos=normal",
        )
        for step in steps:
            with contextlib.suppress(SlurmUnreachable):  # "nothing new added" is a failure to sacctmgr
                self.run("sacctmgr", "-i", *step.split())

    def _sql(self, text: str) -> None:
        words = ("mariadb", "--no-defaults", "-u", "root", "-S", f"{self.spec.run}/mysql.sock", "-e", text)
        self._until(lambda: self._quiet(words), 60, "MariaDB takes orders", self.spec.log / "mariadb.log")

    def _quiet(self, words: tuple[str, ...]) -> bool:
        return subprocess.run(words, env=self._own_environment(), capture_output=True, check=False).returncode == 0

    def _daemon(self, *argv: str) -> None:
        """Start what puts itself into the background, and wait until it has."""
        log = self.spec.log / f"{argv[0]}.start"
        with log.open("w", encoding="utf-8") as out:
            done = subprocess.run(
                argv, env=self._own_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
                start_new_session=True, preexec_fn=_ignore_broken_pipes,
            )  # fmt: skip
        if done.returncode:
            raise SlurmUnreachable(f"{argv[0]} did not start (status {done.returncode})", _tail(log))

    def _background(self, name: str, *argv: str, environment: Mapping[str, str] | None = None) -> None:
        with (self.spec.log / f"{name}.log").open("w", encoding="utf-8") as out:
            child = subprocess.Popen(
                argv,
                env={**self._own_environment(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        _OUTLIVING.append(child)
        (self.spec.run / f"{name}.pid").write_text(str(child.pid), encoding="utf-8")

    def _own_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _all_idle(self) -> bool:
        try:
            shown = self.run("sinfo", "--noheader", "--Node", "--states=idle,mix,alloc", "-o", "%N")
        except SlurmUnreachable:
            return False
        return len(set(shown.split())) >= self.spec.nodes

    def _end_jobs(self) -> None:
        for pid in self._jobs():
            _kill(pid, signal.SIGKILL)

    def _jobs(self) -> Iterator[int]:
        """Processes of jobs and their keepers: those whose environment or open files point here."""
        conf, logs = f"SLURM_CONF={self.spec.etc}/slurm.conf".encode(), f"{self.spec.log}/"
        nodes = {f"SLURMD_NODENAME={name}".encode() for name in self.spec.node_names}
        daemons = set(self.running().values())
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) in daemons or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                environment = set((entry / "environ").read_bytes().split(b"\0"))
                keeper = (entry / "comm").read_text().strip() in ("slurmstepd", "slurm_script")
                if (conf in environment and (keeper or nodes & environment)) or (keeper and _opens(entry, logs)):
                    yield int(entry.name)

    def _pid(self, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.spec.run / f"{name}.pid").read_text(encoding="ascii").strip())
            return pid if _lives(pid) else None
        return None

    def _alive(self, name: str) -> bool:
        return self._pid(name) is not None

    def _until(self, condition: Callable[[], bool], patience_s: float, what: str, log: Path) -> None:
        if not wait_until(condition, patience_s):
            raise SlurmUnreachable(f"waited {patience_s:g} s in vain until {what}; {log} ends with", _tail(log))


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that are free now.

    Raises:
        ConfigurationError: There are none.
    """
    for _ in range(200):
        first = LOWEST_PORT + secrets.randbelow(_first_ephemeral() - LOWEST_PORT - count)
        if not any(_answers(first + k) for k in (CONTROLLER, DATABASE_DAEMON, DATABASE)) and _bindable(first, count):
            return first
    raise ConfigurationError(f"found no {count} neighbouring free ports; name the first with --port")


def _first_ephemeral() -> int:
    """From here on a port may be taken any moment as the near end of somebody's connection (ip(7))."""
    try:
        words = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()
        return max(int(words[0]), LOWEST_PORT + 2_000)
    except (OSError, ValueError, IndexError):
        return 32_768


def _bindable(first: int, count: int) -> bool:
    for port in range(first, first + count):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _ignore_broken_pipes() -> None:
    """Ignore SIGPIPE, which would end a daemon before it has set its own handlers; Slurm resets it for jobs."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _end(pid: int, *, whole_group: bool = False) -> None:
    """End a process, or the whole group that it leads: by SIGTERM, and by SIGKILL where that does not help."""
    _kill(-pid if whole_group else pid, signal.SIGTERM)
    if wait_until(lambda: not _lives(pid), END_S):
        return
    _kill(-pid if whole_group else pid, signal.SIGKILL)


def _kill(pid: int, sign: signal.Signals) -> None:
    """Send a signal to a process that may be gone; to a group where the number is negative."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


def _opens(process: Path, prefix: str) -> bool:
    return any(os.readlink(file).startswith(prefix) for file in (process / "fd").iterdir())


def _secret(path: Path, size: int) -> None:
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(secrets.token_bytes(size))


def _tail(log: Path, lines: int = 5) -> str:
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
