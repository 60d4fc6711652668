"""The process of an executor, and the plan file by which a planner acts.

The planner requests a snapshot, decides, and writes the plan. The executor takes the snapshots: those of its own checks
are then no further requests to Slurm.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from mirage.atomic_file import write_atomically
from mirage.control.allow_list import PLAN_FORMAT
from mirage.control.executor_folder import lock_holder
from mirage.control.plan_executor import PlanExecutor
from mirage.control.pools_file import read_pools
from mirage.control.snapshot_file import answer_request, begin_without_request, is_requested
from mirage.control.verbs import Verb
from mirage.errors import ConfigurationError, MirageError, SlurmUnreachable
from mirage.real_time import wait_until
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import GpuSnapshotSeries

PLAN = "plan.json"
_TICK_S = 0.1
"""A new plan waits for this time at most."""

_SOONEST = 0.9
"""Share of a poll after which the next snapshot may be requested."""

_PATIENCE_S = 20.0
_MOST_BYTES = 4_000_000


def write_plan(folder: Path, number: int, time_s: int, verbs: list[Verb]) -> None:
    """Replace the plan file.

    Args:
        folder: The folder of the executor.
        number: Number of the plan; each is carried out once.
        time_s: Time of the snapshot, in seconds since 1970.
        verbs: What to do, in order.
    """
    rows = [
        {"name": one.name, "job": one.job, "submit_s": one.submit_s, "node": one.node, "nice": one.nice,
         "minutes": one.minutes, "warns": one.warns, "gpus": one.gpus}
        for one in verbs
    ]  # fmt: skip
    plan = {"format": PLAN_FORMAT, "number": number, "time_s": time_s, "verbs": rows}
    write_atomically(folder / PLAN, json.dumps(plan).encode(), 0o600)


def start_executor(config: Path, folder: Path) -> int | None:
    """Start the process of an executor, and wait until it acts.

    Call it before a scheduler is imported: the process then contains no policy code, not even in memory.

    Args:
        config: The file of pools.
        folder: The folder of plan, journal and lock.

    Returns:
        Its process id; None if it could not begin.
    """
    planner = os.getpid()
    begun, begins = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(begun)
            status = run_executor(config, folder, planner, lambda: _write_and_close(begins))
        except BaseException:  # such as a full disk: the process ends here, and nothing above it prints the error
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(begins)
    with os.fdopen(begun, "rb") as pipe:
        acts = pipe.read(1) == b"1"
    if not acts:
        os.waitpid(process, 0)
    return process if acts else None


def _write_and_close(descriptor: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the planner was killed since: this process ends soon
        os.write(descriptor, b"1")
    os.close(descriptor)


def end_controller(folder: Path) -> None:
    """End the executor that has the lock of a folder, if any; its planner ends with it.

    Raises:
        ConfigurationError: It does not end.
    """
    pid = lock_holder(folder)
    if pid is None:
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:  # it has ended since
        pass
    except PermissionError as error:
        raise ConfigurationError(f"the controller, process {pid}, is another user's: it must end first") from error
    if not wait_until(lambda: lock_holder(folder) is None, _PATIENCE_S):
        raise ConfigurationError(f"the controller, process {pid}, does not end; kill it, then repeat this command")


def wait_status(process: int) -> int | None:
    """The wait status of an executor that has ended, 0 after SIGTERM; None while it runs."""
    try:
        ended, status = os.waitpid(process, os.WNOHANG)
    except ChildProcessError:  # this function has found its end before
        return 0
    return status if ended else None


def end_executor(process: int) -> None:
    """End the process of an executor, and wait for its end."""
    if wait_status(process) is None:
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)


def run_executor(config: Path, folder: Path, planner: int, begun: Callable[[], None]) -> int:
    """Carry out the plans of a folder until SIGTERM, or until the planner's process ends.

    Returns the exit status: 1 if it cannot begin, or has lost its lease. Loans then end by themselves.

    Args:
        config: The file of pools.
        folder: The folder of plan, journal and lock.
        planner: Process id of the planner, the parent of this process.
        begun: Called when it has the lease.
    """
    ended = [False]

    def end(_: int, __: FrameType | None) -> None:
        ended[0] = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the planner, too, which ends this process
    clock = lambda: time.clock_gettime(time.CLOCK_REALTIME)  # noqa: E731
    try:
        with closing(PlanExecutor(SlurmClient(), read_pools(config), folder, clock)) as executor:
            executor.on_outcome = _print
            executor.begin()
            print(f"mirage: the executor acts, process {os.getpid()}", file=sys.stderr, flush=True)
            requests = _Requests(folder, executor.pools.poll_s)
            snapshots = GpuSnapshotSeries(executor.slurm)
            begun()
            while not ended[0] and os.getppid() == planner:
                pause_s = _TICK_S
                try:
                    if not executor.releases() and requests.wants_snapshot():
                        answer_request(folder, snapshots, executor.clock(), executor.observe)
                    if (plan := requests.new_plan()) is not None:
                        executor.run_plan(plan)
                    pause_s = min(executor.tick(), _TICK_S)
                except SlurmUnreachable as error:
                    print(f"mirage: {error}", file=sys.stderr, flush=True)
                time.sleep(pause_s)
    except MirageError as error:
        print(f"mirage: error: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


class _Requests:
    """What the planner requests by files, from now on.

    Args:
        folder: The folder of the executor.
        poll_s: Seconds between two snapshots: a planner that requests more of them waits.

    Raises:
        ConfigurationError: A file cannot be written.
    """

    def __init__(self, folder: Path, poll_s: int) -> None:
        self.folder, self.poll_s = folder, poll_s
        self._soonest_s = 0.0  # of the next snapshot
        self._written_ns, self._done = _written_ns(folder), read_plan(folder)[0]
        begin_without_request(folder)

    def wants_snapshot(self) -> bool:
        """Whether a snapshot is to be taken now."""
        if time.monotonic() < self._soonest_s or not is_requested(self.folder):
            return False
        self._soonest_s = time.monotonic() + _SOONEST * self.poll_s
        return True

    def new_plan(self) -> object:
        """A plan that was written since the last call; None without one that can be read."""
        if self._written_ns == (written_ns := _written_ns(self.folder)):
            return None
        self._written_ns = written_ns
        number, plan = read_plan(self.folder)
        if number in (self._done, -1):
            return None
        self._done = number
        return plan


def _written_ns(folder: Path) -> int:
    """When the plan file was written; 0 without one."""
    try:
        return os.stat(folder / PLAN).st_mtime_ns
    except OSError:
        return 0


def read_plan(folder: Path) -> tuple[int, object]:
    """The number and content of the plan file; −1 without one that can be read."""
    try:
        with open(folder / PLAN, "rb") as file:
            plan = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return -1, None
    number = plan.get("number") if isinstance(plan, dict) else None
    return (number, plan) if isinstance(number, int) else (-1, None)


def _print(outcome: Mapping[str, Any]) -> None:
    at = datetime.fromtimestamp(outcome["time_s"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    detail = outcome["detail"]
    subject = (detail.get("job") or detail.get("node") or "") if isinstance(detail, dict) else ""
    print(f"{at} {outcome['what']} {subject}: {outcome['outcome']}", file=sys.stderr, flush=True)
