"""Start and stop a private cluster: munge, MariaDB, slurmdbd, slurmctld and slurmd.

cluster = PrivateCluster(LabSpec(directory=Path("lab"), nodes=8, speed=60))
cluster.up()
cluster.run("sinfo")
cluster.purge()
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from mirage.errors import ConfigurationError, SlurmUnreachable, shown
from mirage.lab.real import clock, cluster_files
from mirage.lab.real.accounting import start_accounting
from mirage.lab.real.cluster_processes import ClusterProcesses, daemons_of, kill, lives, tail
from mirage.lab.real.lab_spec import CONTROLLER, REST, LabSpec
from mirage.lab.real.ports import answers
from mirage.lab.real.slurm_packages import PATH, require
from mirage.lab.sockets import require_plain_path, require_short_path
from mirage.real_time import on_this_clock_s, real_s, wait_until

_NODE_S = 30.0
"""Real seconds after which a slurmd that still has no process has ended."""

_CONTROLLER_S = 1.0
"""Real seconds after which a slurmctld that has no process has ended: it starts by two forks."""

_KILLED_LAST = ("slurmrestd", "slurmctld", "slurmdbd", "mariadb", "munged", clock.NAME)


class PrivateCluster:
    """A real Slurm in one directory.

    Args:
        spec: The description of the cluster; if the directory already holds one, its own description counts.

    Raises:
        ConfigurationError: It is none, or that of the directory is damaged or another user's.
    """

    def __init__(self, spec: LabSpec) -> None:
        if not isinstance(spec, LabSpec):
            raise ConfigurationError(f"the cluster must be a LabSpec(directory=Path('lab')), got {shown(spec)}")
        self.spec = cluster_files.read_spec(spec)
        self.processes = ClusterProcesses(self.spec, lambda: self.environment)

    # -- life -------------------------------------------------------------------------------------------------

    def up(self, patience_s: float = 120.0, interrupted: Callable[[], bool] = lambda: False) -> None:
        """Start all processes that are not running, and wait until every node is idle.

        If a first start fails, everything is removed, so that the next one may request another cluster.

        Args:
            patience_s: Time in which the nodes must be idle.
            interrupted: Whether the start was interrupted and nothing has raised ``KeyboardInterrupt``.

        Raises:
            ConfigurationError: A program is missing, a port is taken, the directory holds other files, or its path is
                too long or has a special character.
            SlurmUnreachable: A daemon did not start; the end of its log is quoted.
        """
        require(self.spec)
        require_plain_path(self.spec.directory)
        require_short_path(self.spec.directory, self.spec.longest_socket)
        is_first = not cluster_files.is_written(self.spec)
        self.write()
        try:
            self._start_all(patience_s)
            if interrupted():
                raise KeyboardInterrupt
        except BaseException:
            if is_first:
                self.purge()
                for pid in daemons_of(self.spec.directory):  # they were starting, and had no pid file yet
                    kill(pid, signal.SIGKILL)
            raise

    def write(self) -> None:
        """Write the files of a cluster that has none yet."""
        if not cluster_files.is_written(self.spec):
            self.spec = self.processes.spec = cluster_files.write_files(self.spec)

    def down(self) -> None:
        """End every process of the cluster; its stored state remains."""
        if not self.spec.run.is_dir():
            return
        self._end_jobs()
        for name in (*self.spec.node_names, *_KILLED_LAST):
            self.processes.end(name, whole_group=name == clock.NAME)
        self._end_jobs()  # those that started when others ended
        clock.forget_clock(self.spec)

    def purge(self) -> None:
        """End the cluster and remove its files; other files in its directory remain."""
        self.down()
        cluster_files.remove_files(self.spec)

    def kill_controller(self) -> None:
        """``kill -9`` slurmctld."""
        if (pid := self.processes.pid("slurmctld")) is not None:
            kill(pid, signal.SIGKILL)
            self._until(lambda: not lives(pid), 10, "slurmctld is gone", self.spec.log / "slurmctld.log")

    def start_controller(self) -> None:
        """Start slurmctld if it does not run.

        Raises:
            SlurmUnreachable: It has ended, as after a fatal error in slurm.conf, or does not answer.
        """
        if not self.processes.alive("slurmctld"):
            self.processes.daemon("slurmctld")
        end_s = real_s() + _CONTROLLER_S
        self._until(
            lambda: answers(self.spec.port + CONTROLLER) or (real_s() > end_s and self._controller_has_ended()), 30,
            "slurmctld answers", self.spec.log / "slurmctld.log",
        )  # fmt: skip

    def running(self) -> dict[str, int]:
        """Process ids of running processes, by name."""
        names = (*_KILLED_LAST, *self.spec.node_names)
        return {name: pid for name in names if (pid := self.processes.pid(name)) is not None}

    # -- use --------------------------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of a client process on the cluster's clock."""
        conf = {"SLURM_CONF": str(self.spec.conf), "PATH": PATH}
        return {**conf, **clock.clock_environment(self.spec)}

    @property
    def user_environment(self) -> dict[str, str]:
        """Environment of a user's shell; chains of this cluster are separate from others."""
        return {**self.environment, "MIRAGE_HOME": str(self.spec.home), "MIRAGE_STORE": "", "MIRAGE_QUEUE": ""}

    @property
    def rest_url(self) -> str:
        """URL of slurmrestd; requests need ``token``."""
        return f"http://127.0.0.1:{self.spec.port + REST}"

    def token(self) -> str:
        """Returns a JSON web token of the present user, valid for a day."""
        return self.run("scontrol", "token", "lifespan=86400").strip().partition("=")[2]

    def run(self, *argv: str, timeout_s: float = 60.0) -> str:
        """Run a client; returns its output.

        Args:
            timeout_s: Real seconds.

        Raises:
            SlurmUnreachable: It failed; its error output is quoted.
        """
        try:
            done = subprocess.run(
                argv, env=self.processes.environment(), capture_output=True, text=True,
                timeout=on_this_clock_s(timeout_s), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise SlurmUnreachable(f"{argv[0]} did not answer within {timeout_s:g} s") from error
        if done.returncode:
            raise SlurmUnreachable(f"{argv[0]} failed with status {done.returncode}", done.stderr or done.stdout)
        return done.stdout

    # -- pieces -----------------------------------------------------------------------------------------------

    def _start_all(self, patience_s: float) -> None:
        self._start_clock(patience_s)
        self._start_munge(patience_s)
        if self.spec.accounting:
            start_accounting(self.spec, self.processes, self.run, self._until)
        self.start_controller()
        for name in self.spec.node_names:
            (self.spec.state / name).mkdir(exist_ok=True)
            if not self.processes.alive(name):
                self.processes.daemon("slurmd", "-N", name)
        if self.spec.rest and not self.processes.alive("slurmrestd"):
            self._start_rest()
        end_s = real_s() + min(_NODE_S, patience_s)
        self._until(
            lambda: self._all_idle()
            or (real_s() > end_s and (self._controller_has_ended() or self._a_node_has_ended())), patience_s,
            "all nodes are idle", self.spec.log / "slurmctld.log",
        )  # fmt: skip

    def _start_clock(self, patience_s: float) -> None:
        runs = self.spec.speed == 1 or self.processes.alive(clock.NAME) or clock.start_clock(self.spec, patience_s)
        if not runs:
            raise SlurmUnreachable(
                f"timed out after {patience_s:g} s, waiting until the accelerated clock runs; "
                "`faketime -f +0 true` may show why it does not"
            )

    def _start_munge(self, patience_s: float) -> None:
        if self.processes.alive("munged"):
            return
        spec = self.spec
        self.processes.daemon(
            "munged", f"--key-file={spec.etc}/munge.key", f"--socket={spec.run}/munge.sock",
            f"--pid-file={spec.run}/munged.pid", f"--log-file={spec.log}/munged.log",
            f"--seed-file={spec.state}/munge.seed", "--num-threads=4", "--force",
        )  # fmt: skip
        self._until((spec.run / "munge.sock").exists, patience_s, "munged answers", spec.log / "munged.log")

    def _start_rest(self) -> None:
        """Start Slurm's REST interface, on TCP, for clients with a token."""
        listens = f"127.0.0.1:{self.spec.port + REST}"
        allowed = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_user_check"}  # it refuses to run as root
        conf = str(self.spec.conf)
        parts = ["openapi/v0.0.38", "openapi/dbv0.0.38"] if cluster_files.version() < 23 else ["slurmctld", "slurmdbd"]
        served = ",".join(parts[: 1 + self.spec.accounting])
        argv = ["slurmrestd", "-f", conf, "-a", "rest_auth/jwt", "-s", served, listens]
        self.processes.background("slurmrestd", *argv, environment=allowed)
        self._until(lambda: answers(self.spec.port + REST), 30, "slurmrestd answers", self.spec.log / "slurmrestd.log")

    def _all_idle(self) -> bool:
        try:
            shown = self.run("sinfo", "--noheader", "--Node", "--states=idle,mix,alloc", "-o", "%N")
        except SlurmUnreachable:
            return False
        return len(set(shown.split())) >= self.spec.nodes

    def _controller_has_ended(self) -> bool:
        """Return False, or raise if slurmctld has ended."""
        if not daemons_of(self.spec.directory, ("slurmctld",)):
            raise _ended("slurmctld", self.spec.log / "slurmctld.log")
        return False

    def _a_node_has_ended(self) -> bool:
        """Return False, or raise if a slurmd has ended.

        One that cannot bind its port ends after its start was reported as a success.
        """
        for name in self.spec.node_names:
            if not self.processes.alive(name):
                raise _ended(f"slurmd of node {name}", self.spec.log / f"{name}.log")
        return False

    def _end_jobs(self) -> None:
        self.processes.end_jobs(self.running().values())

    def _until(self, condition: Callable[[], bool], patience_s: float, what: str, log: Path) -> None:
        if not wait_until(condition, patience_s):
            raise SlurmUnreachable(
                f"timed out after {patience_s:g} s, waiting until {what}; {log.name} ends with", tail(log)
            )


def _ended(what: str, log: Path) -> SlurmUnreachable:
    return SlurmUnreachable(f"{what} ended after its start; {log.name} ends with", tail(log))
