"""``mirage emulate devices``, and trainings on the devices of a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import main
from tests.support.toy_profiles import write_profiles
from tests.support.waiting import until


@pytest.fixture
def gpus(tmp_path: Path) -> str:
    (tmp_path / "gpus").mkdir()
    return str(tmp_path / "gpus")


@pytest.fixture
def train(tmp_path: Path, gpus: str) -> list[str]:
    """A training that holds all memory of device 1 of node local-1."""
    folder = write_profiles(tmp_path / "profiles")
    words = [
        "emulate",
        "train",
        "--profiles",
        str(folder),
        "--model",
        "toy",
        "--gpu-type",
        "slow",
        "--local-batch",
        "30",
    ]
    return [*words, "--devices", gpus]


def listed(capsys: pytest.CaptureFixture[str], gpus: str, *options: str) -> Any:
    capsys.readouterr()
    assert main(["emulate", "devices", gpus, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_second_job_is_out_of_memory_and_a_lost_device_ends_the_first(
    train: list[str], gpus: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    job = subprocess.Popen([sys.executable, "-m", "mirage", *train], stderr=subprocess.PIPE, text=True)
    try:
        until(Path(gpus, "local-1.gpus").exists, 20, "no file of devices")
        until(lambda: bool(listed(capsys, gpus)[1]["owners"]), 20, "nothing is held")
        (owner,) = listed(capsys, gpus)[1]["owners"]
        assert (owner["pid"], owner["memory_mib"]) == (job.pid, 16_384)
        assert main(train) == 1
        assert "CUDA out of memory. Tried to allocate 16.00 GiB. GPU 1 has" in capsys.readouterr().err
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        assert main([*train, "--speed", "1e6", "--restart-s", "0", "--steps", "5"]) == 0
        assert listed(capsys, gpus)[0]["owners"] == []
        assert listed(capsys, gpus, "--node", "local-1", "--device", "1", "--lose")[1]["lost"]
        _, message = job.communicate(timeout=60)
        assert job.returncode == 1
        assert "GPU 1 of local-1 is lost (Xid 79)" in message
    finally:
        job.kill()
        job.communicate()
    assert not listed(capsys, gpus, "--node", "local-1", "--device", "1", "--restore")[1]["lost"]
    assert main(["emulate", "devices", gpus]) == 0
    assert "local-1 1 Emulated slow: 0 of 16384 MiB, jobs -, ok" in capsys.readouterr().out


def test_what_is_missing_is_named(
    gpus: str, capsys: pytest.CaptureFixture[str], train: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["emulate", "devices", gpus]) == 1
    assert "no emulated devices in" in capsys.readouterr().err
    assert main([*train[:-1], "nowhere"]) == 1
    assert "nowhere: there is no such folder" in capsys.readouterr().err
    Path(gpus, "n.gpus").touch()
    assert main(["emulate", "devices", gpus, "--lose"]) == 2
    assert "a fault needs --node and --device" in capsys.readouterr().err
    assert main(["emulate", "devices", gpus, "--node", "n", "--device", "0"]) == 2
    assert "--device needs a fault: --lose" in capsys.readouterr().err
    assert main(["emulate", "devices", gpus, "--node", "n", "--device", "0", "--xid", "48", "--restore"]) == 2
    assert "--restore removes the faults" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-")
    assert main(train) == 1
    assert "SLURM_JOB_NODELIST: 'n[1-' is not a host list" in capsys.readouterr().err


@pytest.mark.parametrize("visible", ["", "NoDevFiles", "0,0", "0,-1", "GPU-1a2b", "0,"])
def test_devices_that_are_not_different_numbers_are_refused(
    train: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert main([*train, "--speed", "1e6", "--steps", "5"]) == 1
    assert f"CUDA_VISIBLE_DEVICES is {visible!r}; give different numbers of devices" in capsys.readouterr().err
