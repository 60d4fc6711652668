"""The files of a private real Slurm, and reports on it while no daemon runs."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import ConfigurationError, SlurmUnreachable
from mirage.lab.real import ports, private_cluster, slurm_packages
from mirage.lab.real.cluster_files import write_files
from mirage.lab.real.cluster_processes import lives
from mirage.lab.real.lab_spec import LabSpec, gres_conf, slurm_conf, slurmdbd_conf
from mirage.lab.real.ports import free_ports
from mirage.lab.real.private_cluster import PrivateCluster
from tests.support.waiting import until

LAB = LabSpec(directory=Path("/lab"), nodes=2, gpus=4, cpus=8, memory_mib=1000, port=20_000)


def options(text: str) -> dict[str, str]:
    """``Key=value`` lines, nodes and partitions by their names."""
    lines = [line for line in text.splitlines() if line]
    keys = [re.match(r"(?:(?:Node|Partition)Name=)?[^= ]+", line) for line in lines]
    found = {key[0]: line[key.end() :].lstrip("= ") for key, line in zip(keys, lines) if key}
    assert len(found) == len(lines), "a line counts once"
    return found


def changed(**spec: Any) -> dict[str, str | None]:
    """What differs from the plain configuration; None for what is gone."""
    plain, other = options(slurm_conf(LAB, "ada")), options(slurm_conf(replace(LAB, **spec), "ada"))
    return {key: other.get(key) for key in plain.keys() | other.keys() if plain.get(key) != other.get(key)}


def test_the_folders_of_a_cluster_and_the_names_of_its_nodes() -> None:
    assert [str(path) for path in (LAB.etc, LAB.run, LAB.log, LAB.state)] == [
        "/lab/etc",
        "/lab/run",
        "/lab/log",
        "/lab/state",
    ]
    assert LAB.node_names == ["n1", "n2"]


ALWAYS_SO = """
    ClusterName=lab SlurmctldHost=localhost AuthType=auth/munge CredType=cred/munge AuthAltTypes=auth/jwt
    MailProg=/bin/true ProctrackType=proctrack/linuxproc TaskPlugin=task/none MpiDefault=none SwitchType=switch/none
    JobAcctGatherType=jobacct_gather/none SelectType=select/cons_tres SelectTypeParameters=CR_Core_Memory
    SchedulerType=sched/backfill
    PriorityType=priority/multifactor PriorityCalcPeriod=1 PriorityWeightAge=1000 PriorityMaxAge=1-0
    PriorityDecayHalfLife=1-0 PriorityWeightFairshare=2000 PriorityWeightJobSize=100 PriorityWeightPartition=5000
    PriorityWeightQOS=10000 CompleteWait=0 InactiveLimit=0 WaitTime=0 ReturnToService=1 EpilogMsgTime=1
    MessageTimeout=20 TCPTimeout=2 SlurmctldTimeout=60 BatchStartTimeout=60 SlurmdTimeout=120 MaxArraySize=10001
    MaxJobCount=50000 TreeWidth=200 SlurmdParameters=config_overrides LaunchParameters=enable_nss_slurm
"""


def test_what_depends_on_the_place_and_the_port() -> None:
    found = options(slurm_conf(LAB, "ada"))
    expected = {
        "SlurmUser": "ada",
        "SlurmdUser": "ada",
        "SlurmctldPort": "20000",
        "StateSaveLocation": "/lab/state/ctld",
        "SlurmdSpoolDir": "/lab/state/%n",
        "SlurmctldPidFile": "/lab/run/slurmctld.pid",
        "SlurmdPidFile": "/lab/run/%n.pid",
        "SlurmctldLogFile": "/lab/log/slurmctld.log",
        "SlurmdLogFile": "/lab/log/%n.log",
        "AuthInfo": "socket=/lab/run/munge.sock,cred_expire=5",
        "AuthAltParameters": "jwt_key=/lab/state/jwt.key",
        "SchedulerParameters": (
            "bf_interval=1,bf_resolution=1,sched_interval=2,sched_min_interval=100000,bf_continue,bf_window=1440,"
            "bf_max_job_test=1000,default_queue_depth=1000,batch_sched_delay=0"
        ),
        "MinJobAge": "300",
        "KillWait": "2",
        "PreemptType": "preempt/none",
        "PreemptMode": "OFF",
        "GresTypes": "gpu",
        "AccountingStorageType": "accounting_storage/none",
        "NodeName=n1": (
            "NodeHostname=localhost NodeAddr=127.0.0.1 Port=20101 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 "
            "ThreadsPerCore=1 RealMemory=1000 Gres=gpu:4"
        ),
        "NodeName=n2": (
            "NodeHostname=localhost NodeAddr=127.0.0.1 Port=20102 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 "
            "ThreadsPerCore=1 RealMemory=1000 Gres=gpu:4"
        ),
        "PartitionName=main": "Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE State=UP DefMemPerCPU=1000",
    }
    assert found == expected | dict(line.split("=", 1) for line in ALWAYS_SO.split())
    assert changed(directory=Path("/other")).keys() == {key for key, value in found.items() if "/lab/" in value}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"preempt": "qos"}, {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}),
        ({"priority_flags": "FAIR_TREE"}, {"PriorityFlags": "FAIR_TREE"}),
        ({"min_job_age_s": 9, "kill_wait_s": 4}, {"MinJobAge": "9", "KillWait": "4"}),
        ({"cred_expire_s": 60}, {"AuthInfo": "socket=/lab/run/munge.sock,cred_expire=60"}),
        ({"scheduler_parameters": "bf_interval=9"}, {"SchedulerParameters": "bf_interval=9"}),
        ({"nodes": 1}, {"NodeName=n2": None}),
        (
            {"extra": ("Epilog=/bin/true", "PartitionName=low Nodes=n1 Default=NO")},
            {"Epilog": "/bin/true", "PartitionName=low": "Nodes=n1 Default=NO"},
        ),
        (
            {"speed": 60},
            {
                "MessageTimeout": "1200", "TCPTimeout": "120", "SlurmctldTimeout": "3600", "BatchStartTimeout": "3600",
                "SlurmdTimeout": "0",
            },
        ),
        (
            {"accounting": True},
            {
                "AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageHost": "localhost",
                "AccountingStoragePort": "20001", "AccountingStoragePass": "/lab/run/munge.sock",
                "AccountingStorageEnforce": "associations,limits,qos", "AccountingStoreFlags": "job_comment",
                "AccountingStorageTRES": "gres/gpu",
            },
        ),
        ({"enforce": "associations"}, {}),
    ],
)  # fmt: skip
def test_what_a_description_changes_and_nothing_else(spec: dict[str, Any], expected: dict[str, str | None]) -> None:
    assert changed(**spec) == expected


def test_accounting_enforces_what_is_requested() -> None:
    assert changed(accounting=True, enforce="associations")["AccountingStorageEnforce"] == "associations"
    assert "AccountingStorageEnforce" not in changed(accounting=True, enforce="")


def test_a_cluster_without_gpus_names_none() -> None:
    bare = changed(gpus=0, accounting=True)
    assert bare["GresTypes"] is None
    assert "AccountingStorageTRES" not in bare
    assert not [value for value in bare.values() if value and "Gres=" in value]
    assert gres_conf(replace(LAB, gpus=0), "/dev/tty") == ""
    assert gres_conf(LAB, "/lab/dev/gpu") == "NodeName=n[1-2] Name=gpu File=/lab/dev/gpu[0-3]\n"


def test_the_accounting_daemon_s_file() -> None:
    assert slurmdbd_conf(LAB, "ada") == (
        "DbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort=20001\nSlurmUser=ada\nAuthType=auth/munge\n"
        "AuthInfo=socket=/lab/run/munge.sock\nPidFile=/lab/run/slurmdbd.pid\nLogFile=/lab/log/slurmdbd.log\n"
        "CommitDelay=1\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort=20002\n"
        "StorageUser=slurm\nStoragePass=slurm\nStorageLoc=slurm_acct\n"
    )


ALWAYS = ["slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "munged"]


@pytest.mark.parametrize(
    ("spec", "lacking"),
    [
        ({}, ALWAYS),
        ({"accounting": True}, [*ALWAYS, "slurmdbd", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db"]),
        ({"rest": True}, [*ALWAYS, "slurmrestd"]),
        ({"speed": 60}, [*ALWAYS, "faketime", "libfaketimeMT.so.1"]),
    ],
)
def test_programs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], lacking: list[str]
) -> None:
    monkeypatch.setattr(slurm_packages, "PATH", str(tmp_path))
    monkeypatch.setattr(slurm_packages, "faketime_library", lambda: None)
    assert slurm_packages.missing(replace(LAB, **spec)) == lacking
    (tmp_path / "squeue").touch(0o755)
    (tmp_path / "slurmd").touch(0o644)
    assert slurm_packages.missing(replace(LAB, **spec)) == [name for name in lacking if name != "squeue"]


@pytest.fixture(params=["slurm-wlm 22.05.8"])
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> PrivateCluster:
    """A cluster with files for some version of Slurm that was never started."""
    (tmp_path / "slurmctld").write_text(f"#!/bin/sh\necho {request.param}\n")
    (tmp_path / "slurmctld").chmod(0o755)
    monkeypatch.setattr(slurm_packages, "PATH", f"{tmp_path}:{slurm_packages.PATH}")
    cluster = PrivateCluster(replace(LAB, directory=tmp_path / "lab", port=0, extra=("Epilog=/bin/true",)))
    cluster.write()
    return cluster


def test_the_files_are_written_once_and_describe_the_cluster_afterwards(written: PrivateCluster) -> None:
    spec = written.spec
    assert spec.port >= ports.LOWEST_PORT
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in spec.etc.iterdir()}
    assert modes == {
        "munge.key": 0o600, "slurm.conf": 0o644, "gres.conf": 0o644, "cgroup.conf": 0o644, "slurmdbd.conf": 0o600,
    }  # fmt: skip
    assert len((spec.etc / "munge.key").read_bytes()) == 1024
    assert options((spec.etc / "slurm.conf").read_text())["SlurmctldPort"] == str(spec.port)
    again = PrivateCluster(LabSpec(directory=spec.directory, nodes=99, speed=7))
    assert again.spec == spec
    assert json.loads((spec.directory / "spec.json").read_text())["extra"] == ["Epilog=/bin/true"]
    assert again.environment["SLURM_CONF"] == f"{spec.directory}/etc/slurm.conf"
    assert again.environment.keys() == {"SLURM_CONF", "PATH"}
    assert again.rest_url == f"http://127.0.0.1:{spec.port + 3}"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("slurm-wlm 22.05.8", "CgroupPlugin=cgroup/v1\n"),
        ("slurm 23.02.1", "CgroupPlugin=disabled\n"),
        ("slurm 25.11.0-0rc1", "CgroupPlugin=disabled\n"),
        ("", "CgroupPlugin=cgroup/v1\n"),
    ],
    indirect=["written"],
)
def test_no_version_is_configured_with_cgroups_that_need_systemd(written: PrivateCluster, text: str) -> None:
    assert (written.spec.etc / "cgroup.conf").read_text() == text


@pytest.mark.parametrize("written", ["slurm-wlm 22.05.8"], indirect=True)
def test_a_daemon_that_does_not_start_is_quoted_with_the_errors_of_its_log(
    written: PrivateCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written.spec.directory.parent
    (folder / "slurmd").write_text(
        "#!/bin/sh\necho cgroup.conf is empty\n"
        f"echo 'debug: nothing\nerror: cannot connect to dbus' > {written.spec.log}/n3.log\nexit 1\n"
    )
    (folder / "slurmd").chmod(0o755)
    monkeypatch.setattr(private_cluster, "PATH", f"{folder}:{slurm_packages.PATH}")
    with pytest.raises(SlurmUnreachable, match=r"slurmd did not start.*empty; error: cannot connect to dbus$"):
        written.processes.daemon("slurmd", "-N", "n3")


def test_nothing_runs_of_one_that_was_never_started(written: PrivateCluster) -> None:
    (written.spec.run / "slurmctld.pid").write_text("garbage\n")
    (written.spec.run / "n1.pid").write_text(str(2**22 + 1))
    assert written.running() == {}
    written.down()
    assert list(written.spec.run.iterdir()) == []
    written.purge()
    assert not written.spec.directory.exists()
    written.down()


def test_a_stranger_with_the_number_of_a_daemon_is_spared(written: PrivateCluster) -> None:
    """Numbers of processes come round again: a daemon is known by what it was started with."""
    with ExitStack() as ending:
        stranger, daemon = (
            ending.enter_context(subprocess.Popen(["sleep", "617"], env={**os.environ, **mark}))
            for mark in ({}, {"SLURM_CONF": str(written.spec.etc / "slurm.conf")})
        )
        ending.callback(stranger.kill)
        ending.callback(daemon.kill)
        for name, process in {"n1": stranger, "n2": daemon}.items():
            (written.spec.run / f"{name}.pid").write_text(f"{process.pid}\n")
        until(lambda: written.running() == {"n2": daemon.pid}, 10, "the daemon is known")
        written.down()
        assert daemon.wait(20) < 0
        assert stranger.poll() is None


def test_a_directory_with_files_of_others_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigurationError, match=f"^{tmp_path} holds files, but no private cluster; name a directory"):
        PrivateCluster(replace(LAB, directory=tmp_path)).write()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["log", "log/thesis.txt"]


def test_a_folder_of_the_agent_does_not_prevent_a_cluster(tmp_path: Path) -> None:
    """A command in the shell of a removed cluster makes it, and perhaps an empty store."""
    lab = PrivateCluster(replace(LAB, directory=tmp_path))
    (lab.spec.home / "chains").mkdir(parents=True)
    lab.write()
    lab.purge()
    lab.spec.home.mkdir(parents=True)
    (lab.spec.home / "store.db").touch()
    lab.write()
    assert (lab.spec.etc / "slurm.conf").is_file()


def test_files_of_others_in_its_folder_outlive_a_cluster(written: PrivateCluster) -> None:
    theirs = written.spec.directory / "thesis.txt"
    theirs.write_text("precious")
    written.purge()
    assert list(written.spec.directory.iterdir()) == [theirs]


MUNGED = """#!/bin/sh
for word; do case $word in --pid-file=*) file=${word#*=};; --socket=*) touch "${word#*=}";; esac; done
sleep 617 & echo $! > "$file"; echo $! >> "${0%munged}started"
"""
SLURMCTLD = """#!/bin/sh
test "$1" = -V || { echo "fatal: no such key" >&2; exit 1; }
"""


def test_of_a_first_start_that_fails_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {**dict.fromkeys(ALWAYS, "#!/bin/sh\n"), "munged": MUNGED, "slurmctld": SLURMCTLD}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for module in ("private_cluster", "slurm_packages"):
        monkeypatch.setattr(f"mirage.lab.real.{module}.PATH", f"{tmp_path}:{slurm_packages.PATH}")
    directory = tmp_path / "lab"
    for nodes in (1, 2):
        wanted = PrivateCluster(LabSpec(directory=directory, nodes=nodes))
        assert wanted.spec.nodes == nodes, "nothing is remembered"
        with pytest.raises(SlurmUnreachable, match="fatal: no such key"):
            wanted.up()
        assert not directory.exists()
    started = [int(number) for number in (tmp_path / "started").read_text().split()]
    assert len(started) == 2
    assert not any(map(lives, started))
    other = PrivateCluster(LabSpec(directory=directory, nodes=1))
    other.write()
    with pytest.raises(SlurmUnreachable):
        other.up()
    assert other.spec.conf.exists(), "what stood before stays"
    other.down()


def test_a_fast_cluster_s_clients_run_on_its_clock(tmp_path: Path) -> None:
    cluster = PrivateCluster(LabSpec(directory=tmp_path, speed=60))
    cluster.spec.run.mkdir()
    assert (cluster.environment["FAKETIME"], cluster.environment["FAKETIME_SHARED"]) == ("+0 x60", "")
    (cluster.spec.run / "clock.shared").write_text("/sem /shm\n")
    assert cluster.environment["FAKETIME_SHARED"] == "/sem /shm"


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("echo cross >&2; echo out; exit 3", "sh failed with status 3", "cross"),
        ("echo out; exit 1", "sh failed with status 1", "out"),
        ("exec sleep 5", "sh did not answer within 0.1 s", ""),
    ],
)
def test_a_client_that_fails_is_quoted(written: PrivateCluster, command: str, words: str, message: str) -> None:
    with pytest.raises(SlurmUnreachable, match=f"^{words}") as failed:
        written.run("sh", "-c", command, timeout_s=0.1 if "sleep" in command else 20)
    assert failed.value.stderr == message
    assert written.run("sh", "-c", "echo $SLURM_CONF") == f"{written.spec.etc}/slurm.conf\n"


def test_ports_are_neighbours_and_free() -> None:
    first = free_ports(5)
    for port in range(first, first + 5):
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))
    assert first >= 10_000


@pytest.mark.parametrize(("place", "more"), [(0, {}), (1, {"accounting": True}), (3, {"rest": True}), (101, {})])
def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path, place: int, more: dict[str, Any]) -> None:
    first = free_ports(110)
    with socket.socket() as used:
        used.bind(("127.0.0.1", first + place))
        used.listen()
        with pytest.raises(ConfigurationError, match=f"port {first + place} is in use; give another first port"):
            write_files(LabSpec(tmp_path / "lab", nodes=2, port=first, **more))
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize("taken", ["answers", "_bindable"])
def test_ports_that_are_all_taken(monkeypatch: pytest.MonkeyPatch, taken: str) -> None:
    found: dict[str, Callable[..., bool]] = {"answers": lambda port: True, "_bindable": lambda first, count: False}
    monkeypatch.setattr(ports, taken, found[taken])
    with pytest.raises(ConfigurationError, match="found no 7 consecutive free ports; name the first with --port"):
        free_ports(7)


def test_two_processes_never_choose_the_same_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(192)  # nothing else on this machine uses these
    while ports._RESERVED:
        ports._RESERVED.pop().close()
    program = f"from mirage.lab.real import ports\nports.secrets.randbelow = lambda count: {first - 10_000}\n" \
              "print(ports.free_ports(110), flush=True); input()"  # fmt: skip
    monkeypatch.setattr(ports.secrets, "randbelow", lambda count: first - 10_000 + 40)
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == first
        with pytest.raises(ConfigurationError, match="found no 7 consecutive free ports"):
            free_ports(7)
        other.communicate("\n")
    assert free_ports(7) == first + 40, "the ports of a process that has ended are free again"


def test_a_folder_is_no_description() -> None:
    with pytest.raises(ConfigurationError, match=r"must be a LabSpec\(directory=Path\('lab'\)\), got 'lab'"):
        PrivateCluster("lab")  # type: ignore[arg-type]
