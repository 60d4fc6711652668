"""``mirage lab`` where no private cluster is, and where its start is interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.lab.real.cluster_processes import daemons_of
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("words", "directory"),
    [
        (["down"], "mirage-lab"),
        (["down", "big", "--purge"], "big"),
        (["status", "big"], "big"),
        (["env"], "mirage-lab"),
        (["run", "big", "squeue", "--me"], "big"),
        (["run", "big", "squeue", "-h"], "big"),
        (["run", "big", "sbatch", "--help"], "big"),
    ],
)
def test_a_cluster_that_is_not_there_is_named_with_what_starts_it(
    words: list[str],
    directory: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lab", *words]) == 1
    assert capsys.readouterr() == (
        "",
        f"mirage: error: there is no private cluster in {directory}; start one with `mirage lab up {directory}`\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("speed", [1, 20])
@pytest.mark.parametrize("words", [["env", "big"], ["run", "big", "date"]])
def test_a_cluster_that_is_down_has_no_environment(
    words: list[str], speed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    PrivateCluster(LabSpec(directory=Path("big"), speed=speed)).write()
    assert main(["lab", *words]) == 1
    assert capsys.readouterr() == (
        "",
        "mirage: error: the cluster in big does not run; start it with `mirage lab up big`\n",
    )


@pytest.mark.parametrize(
    "words",
    [
        ["up", "big"],
        ["down", "big"],
        ["down", "big", "--purge"],
        ["status", "big"],
        ["env", "big"],
        ["run", "big", "date"],
    ],
)
def test_a_cluster_of_another_user_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    PrivateCluster(LabSpec(directory=Path("big"))).write()
    owner = tmp_path.owner()
    monkeypatch.setattr(os, "geteuid", lambda: 2**31)
    assert main(["lab", *words]) == 1
    assert capsys.readouterr() == (
        "",
        f"mirage: error: the cluster in big belongs to {owner}; run this as {owner}\n",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="a cluster of another user needs root")
def test_root_may_use_the_cluster_of_any_user(tmp_path: Path) -> None:
    PrivateCluster(LabSpec(directory=tmp_path)).write()
    os.chown(tmp_path / "spec.json", 1, -1)
    assert main(["lab", "status", str(tmp_path)]) == 0


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("words", [["down", "--purge"], ["status"]])
def test_the_daemons_of_a_cluster_without_files_or_with_moved_ones_are_named(
    words: list[str], moved: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy("/bin/sleep", tmp_path / "slurmctld")
    environment = {"SLURM_CONF": f"{tmp_path}/lab/etc/slurm.conf"}
    files = tmp_path / "moved" if moved else tmp_path / "lab"
    if moved:
        PrivateCluster(LabSpec(directory=tmp_path / "lab")).write()
        (tmp_path / "lab").rename(files)
    with subprocess.Popen([tmp_path / "slurmctld", "60"], env=environment) as daemon:
        try:
            until(lambda: daemons_of(tmp_path / "lab") == [daemon.pid], 5, "it has its environment")
            assert main(["lab", *words, str(files)]) == 1
            assert f"its processes still run; to end them: kill -9 {daemon.pid}\n" in capsys.readouterr().err
            assert (files / "spec.json").exists() == moved
            assert main(["lab", *words, str(tmp_path / "la")]) == 1
            assert "there is no private cluster in" in capsys.readouterr().err
        finally:
            daemon.kill()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up", "--nodes", "501"], "Invalid value for '-N' / '--nodes': 501 is not in the range 1<=x<=500."),
        (["up", "--gpus", "-1"], "Invalid value for '--gpus': -1 is not in the range 0<=x<=16."),
        (["up", "--port", "64001"], "Invalid value for '--port': 64001 is not in the range 0<=x<=64000."),
        (["up", "--speed", "61"], "Invalid value for '--speed': 61 is not in the range 1<=x<=60."),
        (["up", "--preempt", "a"], "Invalid value for '--preempt': 'a' is not one of 'none', 'qos', 'partition_prio'."),
        (["up", "--preempt", "qos"], "--preempt qos needs --accounting: Slurm has QOS in its database only"),
        (["up", "--set", "SlurmctldPort=7000"], "--set SlurmctldPort: the lab sets it; leave it out, or give --port"),
        (["up", "file"], "Invalid value for '[DIRECTORY]': Directory 'file' is a file."),
        (["run", "big"], "Missing argument 'COMMAND...'."),
    ],
)  # fmt: skip
def test_a_cluster_that_cannot_be_is_refused_before_anything_starts(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(["lab", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"Error: {message}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_another_cluster_than_the_one_that_is_there_is_refused_with_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    PrivateCluster(LabSpec(directory=Path("big"), nodes=2, extra=("KillWait=9",))).write()
    words = ["--nodes", "8", "--rest", "--port", "9000", "--speed", "1", "--set", "KillWait=9", "--set", "MinJobAge=9"]
    assert main(["lab", "up", "big", *words]) == 1
    assert capsys.readouterr().err == (
        "mirage: error: the cluster in big was made with other --nodes, --rest, --port, --set; leave that out to start "
        "it as it is, or `mirage lab down big --purge` first\n"
    )


def test_a_cluster_that_was_moved_is_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PrivateCluster(LabSpec(directory=tmp_path / "lab")).write()
    (tmp_path / "lab").rename(tmp_path / "moved")
    assert main(["lab", "up", str(tmp_path / "moved")]) == 1
    assert capsys.readouterr().err == (
        f"mirage: error: the cluster in {tmp_path}/moved was made in {tmp_path}/lab, and its files name that; move it "
        f"back, or `mirage lab down {tmp_path}/moved --purge` first\n"
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"extra": [], "colour": 1}', "\\"])
@pytest.mark.parametrize("words", [["up"], ["status"], ["env"], ["down"], ["down", "--purge"]])
def test_a_damaged_description_is_named_with_what_to_do(
    text: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.json").write_text(text)
    assert main(["lab", *words, str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"mirage: error: {tmp_path}/spec.json is not the description of a private cluster; "
        "name another directory, or, if this was one, end the processes that still run, with the ids in "
        f"{tmp_path}/run, and remove it\n"
    )


@pytest.mark.slow
@pytest.mark.real_slurm
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_is_interrupted_leaves_nothing(sign: signal.Signals, tmp_path: Path) -> None:
    place = tmp_path / "lab"
    for _ in range(20):
        with subprocess.Popen(
            [sys.executable, "-m", "mirage", "lab", "up", str(place)], stderr=subprocess.PIPE
        ) as started:
            until(lambda: (place / "run" / "munged.pid").exists(), 60, "a daemon runs", pause_s=0.01)
            started.send_signal(sign)
            _, printed = started.communicate(timeout=60)
        if started.returncode:
            break
        assert main(["lab", "down", str(place), "--purge"]) == 0  # it was up before the signal came
    assert (started.returncode, printed.strip()) == (130, b"mirage: interrupted")
    assert not place.exists()  # its processes are ended before its files are removed
