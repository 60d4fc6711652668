"""The emulated ``libnvidia-ml.so.1``, read by NVIDIA's own ``pynvml``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import main
from mirage.emulate.device_ledger import DeviceLedger
from mirage.emulate.nvml_library import nvml_folder
from mirage.emulate.step_time import CARDS
from mirage.errors import ConfigurationError

pytest.importorskip("pynvml", reason="pynvml is not installed; pip install nvidia-ml-py")

READ = """
import json, sys, threading
import pynvml as n
n.nvmlInit()
count = n.nvmlDeviceGetCount()
rows = []
for k in range(count):
    d = n.nvmlDeviceGetHandleByIndex(k)
    try:
        memory, processes = n.nvmlDeviceGetMemoryInfo(d), n.nvmlDeviceGetComputeRunningProcesses(d)
        ecc = [n.nvmlDeviceGetTotalEccErrors(d, kind, n.NVML_VOLATILE_ECC) for kind in (0, 1)]
        again = n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(d)))
        rows.append([n.nvmlDeviceGetName(d), again, memory.total >> 20, memory.used >> 20, memory.free >> 20,
            n.nvmlDeviceGetUtilizationRates(d).gpu, [[p.pid, p.usedGpuMemory >> 20] for p in processes], ecc,
            n.nvmlDeviceGetPciInfo(d).busId])
    except n.NVMLError as error:
        rows.append(type(error).__name__)
print(json.dumps(rows), flush=True)
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(0), n.nvmlEventTypeXidCriticalError, events)
try:
    n.nvmlEventSetWait_v2(events, 30)
    print("an event without an Xid", flush=True)
except n.NVMLError_Timeout:
    print("none", flush=True)
sys.stdin.readline()
event = n.nvmlEventSetWait_v2(events, 20000)
print(event.eventType, event.eventData, flush=True)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler; apt-get install gcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return nvml_folder()


def test_pynvml_reads_devices_their_owners_and_faults(library: Path, tmp_path: Path) -> None:
    ledger = DeviceLedger(tmp_path / "node1.gpus", CARDS["a100"], 3)
    ledger.hold([0, 1], 1000)
    ledger.hold([1], 500)
    ledger.set_utilisation(70)
    ledger.fault(0, corrected=4, uncorrected=9)
    ledger.fault(2, lost=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "MIRAGE_NVML_FILE": str(tmp_path / "node1.gpus")}
    reader: Any = subprocess.Popen(
        [sys.executable, "-c", READ], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    me = os.getpid()
    assert json.loads(reader.stdout.readline()) == [
        ["NVIDIA A100-SXM4-40GB", 0, 40_960, 1000, 39_960, 70, [[me, 1000]], [4, 9], "00000000:01:00.0"],
        ["NVIDIA A100-SXM4-40GB", 1, 40_960, 1500, 39_460, 100, [[me, 1000], [me, 500]], [0, 0], "00000000:02:00.0"],
        "NVMLError_GpuIsLost",
    ]
    assert reader.stdout.readline() == "none\n"
    ledger.fault(0, xid=63)
    output, _ = reader.communicate("\n", timeout=60)
    assert output == "8 63\n"


TABLE = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
table = ctypes.POINTER(ctypes.c_void_p)()
assert nvml.nvmlInternalGetExportTable(ctypes.byref(table), ctypes.create_string_buffer(16)) == 0
call = ctypes.CFUNCTYPE(ctypes.c_int)
slots = table[0] // ctypes.sizeof(ctypes.c_void_p)
print(slots, {call(table[k])() for k in range(1, slots)}, nvml.nvmlDeviceGetTemperature(None, 0, None))
"""


def test_the_table_that_nvidia_smi_requests_emulates_nothing(library: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    done = subprocess.run([sys.executable, "-c", TABLE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "256 {3} 3\n", "3: not supported"


if shutil.which("nvidia-smi"):  # it is no free software, and in no gate

    def test_nvidia_smi_prints_the_devices(library: Path, tmp_path: Path) -> None:
        ledger = DeviceLedger(tmp_path / "node1.gpus", CARDS["a100"], 2)
        ledger.hold([1], 1000)
        ledger.set_utilisation(70)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "MIRAGE_NVML_FILE": str(tmp_path / "node1.gpus")}
        done = subprocess.run(["nvidia-smi"], env=environment, capture_output=True, text=True, check=False)
        assert re.search(r"\| +1 +NVIDIA A100.*\n.* 1000MiB / +40960MiB \| +70%", done.stdout), done


def test_the_command_prints_the_settings(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", "nvml", str(tmp_path)]) == 1
    assert "for node local-1; run `mirage emulate train --devices" in capsys.readouterr().err
    DeviceLedger(tmp_path / "local-1.gpus", CARDS["t4"]).close()
    assert main(["emulate", "nvml", str(tmp_path)]) == 0
    path, file = capsys.readouterr().out.splitlines()
    assert path.startswith(f"export LD_LIBRARY_PATH={library}")
    assert file == f"export MIRAGE_NVML_FILE={tmp_path.resolve()}/local-1.gpus"


def test_without_a_compiler_the_message_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"no C compiler.*install gcc"):
        nvml_folder()
