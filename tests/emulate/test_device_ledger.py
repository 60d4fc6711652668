"""The ledger of emulated devices: capacity, owners that are killed, faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.emulate.device_ledger import DeviceLedger, HeldDevices
from mirage.emulate.step_time import CARDS
from mirage.errors import ConfigurationError, DeviceLost, OutOfDeviceMemory
from tests.support.waiting import until

T4 = CARDS["t4"]

OTHER = """
import sys, time
from pathlib import Path
from mirage.emulate.device_ledger import DeviceLedger
ledger = DeviceLedger(Path(sys.argv[1]))
ledger.hold([int(sys.argv[2])], int(sys.argv[3]))
print("held", flush=True)
time.sleep(600)
"""

WRITER = """
import random, sys, time
from pathlib import Path
from mirage.emulate.device_ledger import DeviceLedger
from mirage.errors import OutOfDeviceMemory
ledger, draw = DeviceLedger(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
while True:
    try:
        ledger.hold([0], draw.randint(1, 9000))
    except OutOfDeviceMemory:
        continue
    ledger.release([0])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    DeviceLedger(tmp_path / "node1.gpus", T4, 4).close()
    return tmp_path / "node1.gpus"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds 5,000 MiB of device 2."""
    words = [sys.executable, "-c", OTHER, str(path), "2", "5000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_memory_is_held_and_released(path: Path) -> None:
    ledger = DeviceLedger(path, T4)
    ledger.hold([1, 3], 15_000)
    assert [sum(o.memory_mib for o in ledger.device(k).owners) for k in range(4)] == [0, 15_000, 0, 15_000]
    assert ledger.device(1).owners[0].pid == os.getpid()
    assert (ledger.count, ledger.device(1).name, ledger.device(1).memory_mib) == (4, "Tesla T4", 15_360)
    with pytest.raises(OutOfDeviceMemory, match=rf"360.00 MiB is free. Process {os.getpid()} has 14.65 GiB"):
        ledger.hold([0, 3], 361)
    assert ledger.device(0).owners == ()  # all devices or none
    ledger.hold([3], 360)
    ledger.release([1, 3])
    assert [ledger.device(k).owners for k in range(4)] == [()] * 4


def test_what_a_killed_process_held_is_free(path: Path, other: subprocess.Popen[str]) -> None:
    ledger = DeviceLedger(path)
    assert [owner.pid for owner in ledger.device(2).owners] == [other.pid]
    assert ledger.sharing([1, 2]) == 1
    with pytest.raises(OutOfDeviceMemory):
        ledger.hold([2], 11_000)
    os.kill(other.pid, signal.SIGKILL)
    until(lambda: not ledger.device(2).owners, 5, "a killed process still holds memory")  # before it is waited for
    ledger.hold([2], 15_360)


def test_a_process_waits_for_the_lock_of_another(path: Path) -> None:
    ledger = DeviceLedger(path)
    with ledger._locked():
        other = subprocess.Popen([sys.executable, "-c", OTHER, str(path), "0", "7"], stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        waited = not ledger.device(0).owners
    until(lambda: bool(ledger.device(0).owners), 20, "the other process holds nothing", 0.02)
    other.kill()
    other.communicate()
    assert waited


def test_an_owner_is_a_process_and_its_start_time(path: Path) -> None:
    ledger = DeviceLedger(path)
    ledger.hold([0], 5)
    with path.open("r+b") as file:  # the same process ID, of a process that started at another time
        file.seek(64 + 256 + 8)
        start = int.from_bytes(file.read(8), "little")
        file.seek(64 + 256 + 8)
        file.write((start - 1).to_bytes(8, "little"))
    assert ledger.device(0).owners == ()


def test_writers_that_are_killed_never_exceed_the_capacity(path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(k)]) for k in range(4)]
    ledger, most = DeviceLedger(path), 0
    try:
        until(lambda: bool(ledger.device(0).owners), 20, "no writer holds memory", 0.01)
        for writer in [*writers[:2], None]:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                with ledger._locked():
                    held = sum(owner.memory_mib for owner in ledger.device(0).owners)
                assert held <= 15_360
                most = max(most, held)
            if writer is not None:
                writer.kill()
    finally:
        for process in writers:
            process.kill()
            process.wait()
    assert most > 0
    assert ledger.device(0).owners == ()


def test_faults_are_reported_and_removed(path: Path) -> None:
    ledger = DeviceLedger(path)
    ledger.fault(1, xid=48, corrected=3, uncorrected=2)
    ledger.fault(1, xid=63, corrected=1)
    found = ledger.device(1)
    assert (found.xid, found.xids, found.ecc_corrected, found.ecc_uncorrected, found.lost) == (63, 2, 4, 2, False)
    ledger.fault(1, lost=True)
    assert (ledger.device(1).xid, ledger.device(1).lost, ledger.device(0).lost) == (79, True, False)
    assert ledger.sharing([0, 2]) == 0
    with pytest.raises(DeviceLost, match=r"GPU 1 of node1 is lost \(Xid 79\)"):
        ledger.sharing([0, 1])
    ledger.restore(1)
    assert not ledger.device(1).lost
    assert ledger.device(1).ecc_uncorrected == 0
    assert (ledger.device(1).xid, ledger.device(1).xids) == (0, 3)


def test_a_job_holds_devices_on_all_its_nodes_or_on_none(tmp_path: Path) -> None:
    held = HeldDevices.take(tmp_path, T4, ["n1", "n2"], 5, (0, 1, 2, 3), 9000)
    assert [(ledger.path.name, numbers) for ledger, numbers in held.on_nodes] == [
        ("n1.gpus", (0, 1, 2)), ("n2.gpus", (0, 1))
    ]  # fmt: skip
    with pytest.raises(OutOfDeviceMemory):
        HeldDevices.take(tmp_path, T4, ["n3", "n2"], 2, (1,), 9000)
    assert DeviceLedger(tmp_path / "n3.gpus").device(1).owners == ()
    assert held.sharing() == 1
    held.set_utilisation(80)
    assert DeviceLedger(tmp_path / "n2.gpus").device(1).owners[0].utilisation == 80
    held.release()
    assert DeviceLedger(tmp_path / "n2.gpus").device(1).owners == ()
    with pytest.raises(ConfigurationError, match="3 GPUs on node n1, and only 2 visible"):
        HeldDevices.take(tmp_path, T4, ["n1"], 3, (0, 1), 1)


def test_a_job_may_hold_the_last_devices_of_a_large_node(tmp_path: Path) -> None:
    held = HeldDevices.take(tmp_path, T4, ["node1"], 2, [14, 15], 10_000)
    assert [ledger.count for ledger, _ in held.on_nodes] == [16]
    held.release()


def test_a_process_that_holds_a_device_twice_has_the_sum(path: Path) -> None:
    ledger = DeviceLedger(path)
    for _ in range(2):
        ledger.hold([0], 6000)
    with pytest.raises(OutOfDeviceMemory, match=r"has 11\.72 GiB memory in use"):
        ledger.hold([0], 6000)
    ledger.close()


def test_files_that_do_not_fit_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="its devices are Tesla T4, the job needs Quadro RTX 6000"):
        DeviceLedger(path, CARDS["rtx6000"])
    with pytest.raises(ConfigurationError, match="there is no device 4; it has 0 to 3"):
        DeviceLedger(path).device(4)
    with pytest.raises(ConfigurationError, match="No such file"):
        DeviceLedger(tmp_path / "none.gpus")
    (tmp_path / "odd.gpus").write_text("something else")
    with pytest.raises(ConfigurationError, match="no file of emulated devices"):
        DeviceLedger(tmp_path / "odd.gpus")
