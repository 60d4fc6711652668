"""``mirage emulate train``: a process with real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import main
from tests.support.toy_profiles import write_profiles
from tests.support.waiting import until


@pytest.fixture
def toy(tmp_path: Path) -> list[str]:
    """Options of a training on the toy profiles: 2.4 s a step on two GPUs."""
    folder = write_profiles(tmp_path / "profiles")
    return ["emulate", "train", "--profiles", str(folder), "--model", "toy", "--gpu-type", "slow", "--gpus", "2"]


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_training_takes_the_expected_time(toy: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*toy, "--steps", "10", "--speed", "300", "--json"]) == 0
    found = printed(capsys)
    assert found["expected_s"] == found["due_s"] == pytest.approx(12 + 10 * 2.4)
    assert found["elapsed_s"] >= found["expected_s"]
    assert (found["steps"], found["state"], found["origin"]) == (10, "done", "measured")


def test_epochs_are_those_of_the_profile(toy: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*toy, "--epochs", "1", "--restart-s", "0", "--speed", "1e6", "--json"]) == 0
    assert printed(capsys)["steps"] == 100 * 10 / 20


@pytest.mark.parametrize("name", ["USR1", "USR2", "TERM"])
def test_a_warned_job_saves_and_exits_with_75(toy: list[str], tmp_path: Path, name: str) -> None:
    progress = tmp_path / "progress.json"
    toy += ["--steps", "999", "--restart-s", "0", "--resume", f"{tmp_path}/c", "--json", "--speed", "9"]
    job = subprocess.Popen([sys.executable, "-m", "mirage", *toy, "--progress", progress], stdout=subprocess.PIPE)
    until(progress.exists, 20, "no progress file")
    job.send_signal(getattr(signal, f"SIG{name}"))
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 75
    found = json.loads(output)
    assert (found["state"], found["warning"]) == ("left", name)
    assert json.loads((tmp_path / "c").read_text())["step"] == found["saved_step"] == found["step"] < 999
    assert json.loads(progress.read_text())["state"] == "left"


def test_a_checkpoint_of_another_batch_has_as_many_samples(
    toy: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = ["--restart-s", "0", "--speed", "1e6", "--json", "--resume", f"{tmp_path}/c"]
    assert main([*toy, "--steps", "10", *fast]) == 0
    assert printed(capsys)["batch"] == 20
    assert main([*toy, "--steps", "10", *fast, "--batch-size", "40"]) == 0
    found = printed(capsys)
    assert (found["first_step"], found["steps"], found["step"]) == (5, 5, 10)


def test_a_checkpoint_after_the_last_step_leaves_nothing_to_do(
    toy: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = ["--restart-s", "0", "--speed", "1e6", "--resume", f"{tmp_path}/c"]
    for steps, announced in (("10", "load, to step 10, "), ("7", "from step 10 to step 7 (no step is left), ")):
        assert main([*toy, "--steps", steps, *fast]) == 0
        assert announced in capsys.readouterr().err


def test_a_batch_that_the_gpus_cannot_share_is_a_warning(toy: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*toy, "--steps", "1", "--restart-s", "0", "--speed", "1e6", "--local-batch", "12", "--batch-size"]
    for batch, warned in (("30", True), ("48", False)):
        assert main([*words, batch]) == 0
        warning = (
            "mirage: warning: 2 GPUs with local batches of 12 make steps of 48 samples, not 30; give a --batch-size"
        )
        assert (warning in capsys.readouterr().err) is warned


def test_too_large_a_batch_is_out_of_memory(toy: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*toy, "--local-batch", "31"]) == 1
    assert capsys.readouterr().err.startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.27 GiB")


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--steps", "3", "--epochs", "1"], 2, "--steps and --epochs exclude each other"),
        (["--checkpoint-s", "5"], 2, "need --resume FILE"),
        (["--resume", "c", "--progress", "./c"], 2, "give each a file of its own"),
        (["--resume", "none/c"], 1, "there is no folder none"),
        (["--resume", "/dev/full"], 2, "/dev/full is a device, which may have no end"),
        (["--gpus", "100000"], 1, "100,000 GPUs of type slow on 33,334 nodes"),
        (["--gpus", "2000000"], 2, "2000000 is too large; at most 1,000,000"),
        (["--speed", "0"], 2, "--speed"),
        (["--batch-size", "1000000000000"], 1, "a batch of 1,000,000,000,000 samples is larger than an epoch of toy"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    toy: list[str], capsys: pytest.CaptureFixture[str], options: list[str], status: int, message: str
) -> None:
    assert main([*toy, *options]) == status
    assert message in capsys.readouterr().err


def test_progress_does_not_wait_for_the_reader_of_a_pipe(
    toy: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main([*toy, "--steps", "3", "--progress", f"{tmp_path}/pipe"]) == 1
    assert f"{tmp_path}/pipe is a pipe, which waits for a reader; name a file" in capsys.readouterr().err


def test_profiles_have_to_be_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MIRAGE_DATA", raising=False)
    command = ["emulate", "train", "--model", "toy", "--gpu-type", "slow"]
    assert main(command) == 1
    assert "give --profiles DIR" in capsys.readouterr().err
    monkeypatch.setenv("MIRAGE_DATA", str(tmp_path))
    assert main(command) == 1
    assert "there is no such folder" in capsys.readouterr().err
