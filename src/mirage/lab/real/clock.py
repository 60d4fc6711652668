"""The accelerated clock of a private cluster: libfaketime, one start for all processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from mirage.lab.real import clock_lock
from mirage.lab.real.cluster_processes import outlive
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.slurm_packages import faketime_library
from mirage.real_time import real_s, wait_until

NAME = "clock"
"""Name of the clock process; the shared start exists as long as this process runs."""


def shared_beginning(spec: LabSpec) -> Path:
    """The file with the shared-memory name of the clock's start."""
    return spec.run / "clock.shared"


def clock_environment(spec: LabSpec) -> dict[str, str]:
    """Variables that put a process on the cluster's clock, which may not be our own."""
    if spec.speed == 1:
        preloaded = os.environ.get("LD_PRELOAD", "")
        if "faketime" not in preloaded:
            return {}
        others = [path for path in re.split("[ :]+", preloaded) if "faketime" not in path]
        return {"LD_PRELOAD": ":".join(others), "FAKETIME": "", "FAKETIME_SHARED": ""}
    shared = shared_beginning(spec)
    return {
        "LD_PRELOAD": str(faketime_library()),
        "FAKETIME": f"+0 x{spec.speed}",
        "FAKETIME_SHARED": shared.read_text(encoding="utf-8").strip() if shared.exists() else "",
    }


def start_clock(spec: LabSpec, patience_s: float) -> bool:
    """Start the clock process; whether it runs within some real seconds.

    On a cluster of root, the jobs of other users are on the same clock: without access to it, libfaketime would start
    another one in each of them, and leave the files of that in /dev/shm when the job is killed.

    The process frees the clock's lock, see ``clock_lock``. faketime ends at once if a killed process of the same number
    has left its shared memory; then it is started again, with another number.
    """
    shared = shared_beginning(spec)
    shared.unlink(missing_ok=True)
    record_start = (
        'echo "$FAKETIME_SHARED" > "$0.new"; mv "$0.new" "$0"; unset LD_PRELOAD; '
        'exec "$1" -I "$2" "${FAKETIME_SHARED%% *}"'
    )
    words = ("faketime", "-f", f"+0 x{spec.speed}", "sh", "-c", record_start, str(shared), sys.executable)
    end_s = real_s() + patience_s
    while not shared.exists() and real_s() < end_s:
        keeper = subprocess.Popen(
            [*words, clock_lock.__file__], env={**os.environ, "SLURM_CONF": str(spec.conf)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        outlive(keeper)
        (spec.run / f"{NAME}.pid").write_text(str(keeper.pid), encoding="utf-8")
        wait_until(lambda: shared.exists() or keeper.poll() is not None, end_s - real_s())  # noqa: B023
    if shared.exists() and os.geteuid() == 0:
        for file in _shared_files(shared):
            file.chmod(0o666)
    return shared.exists()


def forget_clock(spec: LabSpec) -> None:
    """Remove the clock's shared memory."""
    shared = shared_beginning(spec)
    if shared.exists():
        for file in _shared_files(shared):
            file.unlink(missing_ok=True)
        shared.unlink()


def _shared_files(shared: Path) -> list[Path]:
    """The files of the clock's semaphore and start that exist."""
    names = [name.lstrip("/") for name in shared.read_text(encoding="utf-8").split()]
    files = [Path("/dev/shm") / f"{prefix}{name}" for name in names for prefix in ("", "sem.")]
    return [file for file in files if file.exists()]
