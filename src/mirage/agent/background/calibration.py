"""Weekly calibration of the site, in a process that the agent starts and never waits for."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import ChainState, LinkState
from mirage.agent.paths import private_folder
from mirage.agent.settings import AgentSettings
from mirage.calibration.site.calibration_files import DONE, FAILED, REFUSED, CalibrationFiles
from mirage.calibration.site.stored_calibration import StoredCalibration, read_stored_calibration
from mirage.duration import DAY_S, UNLIMITED_S, format_duration
from mirage.errors import ConfigurationError
from mirage.policy.auto_parameters import AUTO
from mirage.policy.cost import Cost
from mirage.process import die_with_me
from mirage.slurm.backend import cluster_of

log = logging.getLogger("mirage.agent")

COMMAND = (sys.executable, "-m", "mirage", "calibrate", "--site")
NICE = 19
"""Login nodes are shared: everything else goes first."""

MOST_LINKS = 4
"""A policy is chosen for at most this number of kinds of links."""

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
OUTCOMES = (DONE, REFUSED, FAILED)


class SiteCalibration:
    """Starts ``mirage calibrate --site`` when it is due, and checks whether it has ended.

    It is due at one second of each day, which differs from user to user and from cluster to cluster, once the last
    calibration is a week old, or after the last attempt has failed; after a refused attempt it is due a week later.

    Args:
        folder: Folder of calibrations.
        user: The agent's user.
        settings: Interval and resource limits.
        real_s: Clock of real seconds that never goes back.
        command: The command to run.

    Attributes:
        stored: The stored calibration of this cluster, for metrics; None where there is none.
        ended: Attempts of this agent by outcome.
    """

    def __init__(
        self,
        folder: Path,
        user: str,
        settings: AgentSettings,
        real_s: Callable[[], float],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self.folder, self.user, self.settings, self.real_s, self.command = folder, user, settings, real_s, command
        self.stored: StoredCalibration | None = None
        self.ended: Counter[str] = Counter()
        self._child: subprocess.Popen[bytes] | None = None
        self._place: CalibrationFiles | None = None
        self._since_s = self._checked_s = -1
        self._begun_s = 0.0
        self._reported = ""
        self._links: Sequence[str] = ()

    @property
    def is_under_way(self) -> bool:
        """Whether a calibration process is running."""
        return self._child is not None

    @property
    def pid(self) -> int | None:
        """Its process; None where none is running."""
        return None if self._child is None else self._child.pid

    def update(self, options: Mapping[str, str] | None, now_s: int, links: Sequence[str] = ()) -> None:
        """Start a calibration if due, and record its end; errors never affect chains.

        Args:
            options: Options of slurm.conf, keys in lower case, which identify the cluster; None while unknown.
            now_s: The cluster's time.
            links: The links for which a policy is to be chosen, as ``--choose-for`` takes them.
        """
        self._links = links
        try:
            if self._child is not None:
                self._follow(self._child)
            elif options is not None and self.settings.calibrate_every_s:
                self._start_if_due(options, now_s)
            self._reported = ""
        except (ConfigurationError, OSError) as error:
            self._report(str(error))
        except Exception as error:
            self._report(f"a fault of Mirage in the calibration: {type(error).__name__}: {error}")

    def close(self) -> None:
        """End the process; its results so far are lost, and the last calibration stays."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def due_s(self, now_s: int) -> int:
        """The last time up to now at which an attempt of this user on this cluster could begin."""
        period_s = min(self.settings.calibrate_every_s, DAY_S)
        place = f"{self.user} {self._place.cluster if self._place else ''}"
        phase_s = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big") % period_s
        return (now_s - phase_s) // period_s * period_s + phase_s

    def _start_if_due(self, options: Mapping[str, str], now_s: int) -> None:
        if self._place is None or self._place.cluster != cluster_of(options):
            self._place, self._since_s, self._checked_s = CalibrationFiles(self.folder, cluster_of(options)), now_s, -1
            self._read_stored()
        due_s = self.due_s(now_s)
        if due_s <= max(self._since_s, self._checked_s):
            return
        self._checked_s = due_s
        if options.get("accountingstoragetype", "none").endswith("none"):
            return
        self._read_stored()
        if self._is_due(self._place, due_s):
            self._start(self._place)

    def _is_due(self, place: CalibrationFiles, due_s: int) -> bool:
        """Whether an attempt is needed at this time."""
        every_s = self.settings.calibrate_every_s
        slack_s = min(every_s, DAY_S) // 2  # the time of the day is not met to the second
        if self.stored is not None and due_s - self.stored.made_s < every_s - slack_s:
            return False
        tried = place.attempt()
        if tried is None:
            return True
        return due_s - tried.began_s >= (every_s - slack_s if tried.outcome == REFUSED else slack_s)

    def _start(self, place: CalibrationFiles) -> None:
        private_folder(place.folder)
        limits = (
            (resource.RLIMIT_CPU, self.settings.calibrate_cpu_s),
            (resource.RLIMIT_DATA, self.settings.calibrate_mib << 20),
        )

        mortal = die_with_me()

        def prepare() -> None:
            mortal()
            os.nice(NICE)
            for limit, most in limits:
                _, hard = resource.getrlimit(limit)
                resource.setrlimit(limit, (most if hard < 0 else min(most, hard), hard))

        command = (*self.command, *(f"--choose-for={link}" for link in self._links))
        log_file = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log_file,
                env={**os.environ, **ONE_THREAD}, preexec_fn=prepare, cwd="/",
            )  # fmt: skip
        finally:
            os.close(log_file)
        self._begun_s = self.real_s()
        log.info("calibrating", extra={"detail": f"the simulator to {place.cluster}, in the background"})

    def _follow(self, child: subprocess.Popen[bytes]) -> None:
        """Check whether the process has ended; end it where it takes too long."""
        took_s = self.real_s() - self._begun_s
        status = child.poll()
        if status is None and took_s <= self.settings.calibrate_real_s:
            return
        self.close()
        assert self._place is not None
        if status == 0:
            self.ended[DONE] += 1
            self._read_stored()
            figures = self.stored.figures if self.stored is not None else "no file"
            log.info("calibrated", extra={"detail": f"after {took_s:.0f} s: {figures}"})
            return
        tried = self._place.attempt()
        refused = status == 1 and tried is not None and tried.outcome == REFUSED
        self.ended[REFUSED if refused else FAILED] += 1
        late = f"stopped, as it had not finished after {took_s:.0f} s"
        how = late if status is None else f"status {status} after {took_s:.0f} s"
        log.warning("not calibrated", extra={"detail": f"{how}: {_last_line(self._place.log)}"})

    def _read_stored(self) -> None:
        """Read the stored calibration; an unreadable file counts as none, and is replaced."""
        assert self._place is not None
        self.stored = None
        with contextlib.suppress(ConfigurationError):
            self.stored = read_stored_calibration(self._place)

    def _report(self, what: str) -> None:
        if what != self._reported:
            log.warning("trouble", extra={"detail": what})
        self._reported = what


def links_of_auto(context: CycleContext) -> list[str]:
    """The links for which ``auto`` is to choose, in the form of ``--choose-for``."""
    found = set()
    for chain in context.chains.values():
        spec = chain.spec
        if chain.state is not ChainState.ACTIVE or spec.policy.partition(":")[0] != AUTO:
            continue
        for link in context.of(chain, LinkState.RUNNING):
            job = context.job_of(chain, link)
            if job is not None and 0 < link.limit_s < UNLIMITED_S:
                ratio = Cost(spec.interruption_cost, spec.overlap_cost).ratio
                cost = "inf" if ratio is None else f"{ratio:g}"
                bank = ",bank" if spec.bank_age or "bank=yes" in spec.policy.split(":") else ""
                found.add(f"{job.nodes},{format_duration(link.limit_s)},{cost}{bank}")
    return sorted(found)[:MOST_LINKS]


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "(nothing)"
    return next((line for line in reversed(lines) if line.strip()), "it printed nothing")[-500:]
