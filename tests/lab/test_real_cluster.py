"""A private real Slurm: up, in use, killed, gone without a trace."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.lab.real import packages
from mirage.lab.real.cluster import PrivateCluster
from mirage.lab.real.spec import LabSpec, slurm_conf
from mirage.patience import wait_until
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner


def test_a_configuration_names_every_node_and_its_gpus(tmp_path: Path) -> None:
    conf = slurm_conf(LabSpec(directory=tmp_path, nodes=3, gpus=2, port=7000, speed=10), "ada")
    assert len(re.findall(r"^NodeName=n\d .*Gres=gpu:2", conf, re.MULTILINE)) == 3
    assert "SlurmUser=ada" in conf
    assert "MessageTimeout=200" in conf
    assert "SlurmdTimeout=0" in conf


def test_missing_programs_are_named_with_the_packages_that_hold_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(packages, "PATH", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"needs slurmctld, .*apt-get install --no-install-recommends slurm-wlm"
    ):
        PrivateCluster(LabSpec(directory=tmp_path / "lab")).up()


@pytest.fixture(scope="module")
def cluster(private_cluster) -> PrivateCluster:
    return private_cluster(nodes=2, gpus=4)


def ended(cluster: PrivateCluster, job: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    client = SlurmClient(SystemRunner(cluster.environment))
    while any(
        one.id == int(job) and one.state in (JobState.PENDING, JobState.RUNNING) for one in client.observe().jobs
    ):
        assert time.monotonic() < end
        time.sleep(0.2)


def submit(cluster: PrivateCluster, folder: Path, command: str, *words: str) -> str:
    return cluster.run("sbatch", "--parsable", "-o", str(folder / "out"), "-t", "5", *words, "--wrap", command).strip()


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_job_runs_and_knows_its_gpus(cluster: PrivateCluster, tmp_path: Path) -> None:
    ended(cluster, submit(cluster, tmp_path, "echo $CUDA_VISIBLE_DEVICES", "--gpus-per-node=2"))
    assert (tmp_path / "out").read_text().strip() == "0,1"


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_broken_pipe_ends_no_daemon_and_still_ends_the_programs_of_jobs(cluster: PrivateCluster, tmp_path) -> None:
    ended(cluster, submit(cluster, tmp_path, "grep SigIgn /proc/self/status"))
    assert not ignores_broken_pipes((tmp_path / "out").read_text())
    for name in ("slurmctld", "n1", "n2"):
        assert ignores_broken_pipes(Path(f"/proc/{cluster.running()[name]}/status").read_text()), name


def ignores_broken_pipes(status: str) -> bool:
    return bool(int(status.partition("SigIgn:")[2].split()[0], 16) >> (signal.SIGPIPE - 1) & 1)


@pytest.mark.real_slurm
@pytest.mark.slow
def test_jobs_survive_the_death_of_slurmctld(cluster: PrivateCluster, tmp_path: Path) -> None:
    job = submit(cluster, tmp_path, "sleep 10; echo alive")
    time.sleep(7)  # slurmctld writes its state down every five seconds; what came later dies with it
    cluster.kill_controller()
    cluster.start_controller()
    ended(cluster, job)
    assert (tmp_path / "out").read_text().strip() == "alive"


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_minute_passes_in_a_second(private_cluster, tmp_path: Path) -> None:
    fast = private_cluster(nodes=1, gpus=0, speed=60)
    begun = time.monotonic()
    ended(fast, submit(fast, tmp_path, "date +%s; sleep 120; date +%s"))
    first, last = map(int, (tmp_path / "out").read_text().split())
    assert 118 <= last - first <= 180
    assert time.monotonic() - begun < 30
    clock = fast.running()["clock"]
    assert len(group_of(clock)) >= 1
    fast.down()
    assert group_of(clock) == []


def group_of(leader: int) -> list[str]:
    """The commands of a process group."""
    lines = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in lines.splitlines()]
    return [row[2] for row in rows if int(row[0]) == leader and not row[1].startswith("Z")]


@pytest.mark.real_slurm
@pytest.mark.slow
def test_two_stand_side_by_side_and_leave_nothing(private_cluster) -> None:
    one, two = private_cluster(nodes=1, gpus=0), private_cluster(nodes=1, gpus=0)
    assert one.spec.port != two.spec.port
    pids = [*one.running().values(), *two.running().values()]
    assert len(pids) == 6
    for cluster in (one, two):
        cluster.down()
        assert cluster.running() == {}
    time.sleep(0.5)
    assert not [
        pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
    ]
    one.up()
    assert "idle" in one.run("sinfo")


@pytest.mark.slow
@pytest.mark.real_slurm
def test_its_end_ends_jobs_and_what_they_started(private_cluster) -> None:
    """Also a job that begins because the one that it waits for has just been ended."""
    cluster = private_cluster(nodes=1)
    words = ["sbatch", "--parsable", "-t9", "-o", "/dev/null", "--wrap", "sleep 617"]
    first = int(cluster.run(*words))
    cluster.run(*words[:-2], f"--dependency=afterany:{first}", *words[-2:])
    assert wait_until(lambda: sleepers() == 1, 20)
    cluster.down()
    assert wait_until(lambda: sleepers() == 0, 5)


def sleepers() -> int:
    found = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += (entry / "cmdline").read_bytes() == b"sleep\x00617\x00"
    return found


@pytest.mark.real_slurm
@pytest.mark.slow
def test_accounting_remembers(private_cluster, tmp_path: Path) -> None:
    cluster = private_cluster(nodes=1, gpus=0, accounting=True)
    job = submit(cluster, tmp_path, "exit 3", "--comment", "mirage:x:1")
    ended(cluster, job)
    slurm, found = SlurmClient(SystemRunner(cluster.environment)), ()
    for _ in range(40):
        found = [one for one in slurm.accounting(int(time.time()) - 600) if one.id == int(job) and one.exit_code]
        if found:
            break
        time.sleep(0.25)
    assert (found[0].exit_code, found[0].comment, found[0].nodes) == (3, "mirage:x:1", 1)
