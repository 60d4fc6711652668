"""A private real Slurm: up, in use, killed, gone without a trace."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import ConfigurationError, SlurmUnreachable
from mirage.forecast.priority_offsets import use_by_user
from mirage.job_state import JobState
from mirage.lab.real import slurm_packages
from mirage.lab.real.cluster_processes import lives
from mirage.lab.real.lab_spec import NODES, LabSpec, slurm_conf
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.lab.sockets import LONGEST_BYTES
from mirage.slurm.client import SlurmClient
from mirage.slurm.queue_source import ScontrolClient
from mirage.slurm.runner import SystemRunner
from mirage.slurm.slurm_view import Names, ended_of, view_of
from mirage.slurm_words.job_names import fold_name
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import until


def test_a_configuration_names_every_node_and_its_gpus(tmp_path: Path) -> None:
    conf = slurm_conf(LabSpec(directory=tmp_path, nodes=3, gpus=2, port=7000, speed=10), "ada")
    assert len(re.findall(r"^NodeName=n\d .*Gres=gpu:2", conf, re.MULTILINE)) == 3
    assert "SlurmUser=ada" in conf
    assert "MessageTimeout=200" in conf
    assert "SlurmdTimeout=0" in conf


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": 0}, "nodes is 0; give a number from 1 to 500"),
        ({"speed": 0}, "speed is 0; give a number from 1 to 60"),
        ({"gpus": 1.5}, "gpus is 1.5; give a whole number"),
        ({"directory": 7}, "directory is 7; give a path"),
    ],
)
def test_a_value_that_no_lab_has_is_refused(given: dict[str, Any], message: str) -> None:
    text: Any = "lab"
    assert LabSpec(text) == LabSpec(Path("lab"))
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        LabSpec(**({"directory": Path("lab")} | given))


def test_missing_programs_are_named_with_the_packages_that_hold_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(slurm_packages, "PATH", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"needs slurmctld, .*apt-get install --no-install-recommends slurm-wlm"
    ):
        PrivateCluster(LabSpec(directory=tmp_path / "lab")).up()


@pytest.fixture(scope="module")
def cluster(private_cluster) -> PrivateCluster:
    return private_cluster(nodes=2, gpus=4)


def state_of(cluster: PrivateCluster, job: str) -> JobState | None:
    """None once Slurm has forgotten a job."""
    jobs = SlurmClient(SystemRunner(cluster.environment)).observe().jobs
    return next((one.state for one in jobs if one.id == int(job)), None)


def ended(cluster: PrivateCluster, job: str) -> None:
    """Waits for the end of a job."""
    is_over = lambda: state_of(cluster, job) not in (JobState.PENDING, JobState.RUNNING)  # noqa: E731
    until(is_over, 30, lambda: cluster.run("scontrol", "show", "job", job))


def submit(cluster: PrivateCluster, folder: Path, command: str, *words: str) -> str:
    return cluster.run("sbatch", "--parsable", "-o", str(folder / "out"), "-t", "5", *words, "--wrap", command).strip()


@pytest.mark.real_slurm
@pytest.mark.slow
def test_a_job_runs_and_knows_its_gpus(cluster: PrivateCluster, tmp_path: Path) -> None:
    ended(cluster, submit(cluster, tmp_path, "echo $CUDA_VISIBLE_DEVICES", "--gpus-per-node=2"))
    assert (tmp_path / "out").read_text().strip() == "0,1"


@pytest.mark.parametrize(
    ("name", "named"), [("a b", "a space"), ("a#1", "'#'"), ("a%n", "'%'"), ("a,b", "','"), ("a[1]", "'['")]
)
def test_a_path_that_slurm_cannot_read_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, named: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("lab")
    with pytest.raises(ConfigurationError, match=re.escape(f"Slurm reads no path with {named}; choose another")):
        PrivateCluster(LabSpec(directory=tmp_path / name, nodes=1)).up()
    assert not any(tmp_path.iterdir())


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_longest_path_holds_a_job_and_a_longer_one_is_refused(tmp_path_factory, tmp_path: Path) -> None:
    folder = tmp_path_factory.mktemp("long")
    room = LONGEST_BYTES - len(str(LabSpec(directory=folder / "x", nodes=1).longest_socket)) + 1
    with pytest.raises(ConfigurationError, match="too long a path for a Unix socket, by 1 bytes"):
        PrivateCluster(LabSpec(directory=folder / ("x" * (room + 1)), nodes=1)).up()
    assert not any(folder.iterdir())
    cluster = PrivateCluster(LabSpec(directory=folder / ("x" * room), nodes=1, extra=("FirstJobId=999999",)))
    try:
        cluster.up()
        ended(cluster, submit(cluster, tmp_path, "echo here"))
        assert (tmp_path / "out").read_text().strip() == "here"
    finally:
        cluster.purge()


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
    """State that slurmctld has not written is lost when it dies."""
    job = submit(cluster, tmp_path, f"until test -e {tmp_path}/go; do sleep 0.2; done; echo alive")
    until(lambda: state_of(cluster, job) is JobState.RUNNING, 20, "the job runs")
    written, running_s = cluster.spec.state / "ctld" / "job_state", time.time()
    cluster.run("scontrol", "update", f"JobId={job}", "Comment=seen running")  # a change, so that it is written again
    until(lambda: written.exists() and written.stat().st_mtime > running_s, 20, "the job is written down")
    cluster.kill_controller()
    cluster.start_controller()
    assert state_of(cluster, job) is JobState.RUNNING
    (tmp_path / "go").touch()
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
    assert time.monotonic() - begun < 100
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
    until(lambda: not any(map(lives, pids)), 5, "every daemon has ended")
    one.up()
    assert "idle" in one.run("sinfo")


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_node_with_a_port_that_is_taken_meanwhile_is_named_and_all_is_removed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mirage.lab.real.private_cluster._NODE_S", 3.0)
    cluster = PrivateCluster(LabSpec(directory=tmp_path / "lab", nodes=2))
    cluster.write()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.spec.port + NODES + 2))
        taken.listen()
        with pytest.raises(SlurmUnreachable, match=r"^slurmd of node n2 ended after its start; n2\.log") as error:
            cluster.up()
    assert "Address already in use" in str(error.value)
    cluster.purge()
    assert not (tmp_path / "lab").exists()


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_controller_that_ends_at_its_start_is_not_waited_for(tmp_path: Path) -> None:
    cluster = PrivateCluster(LabSpec(directory=tmp_path / "lab", nodes=1, extra=("SchedulerType=sched/none",)))
    begun_s = time.monotonic()
    with pytest.raises(SlurmUnreachable, match=r"^slurmctld ended after its start; slurmctld\.log") as error:
        cluster.up()
    assert time.monotonic() - begun_s < 20
    assert "fatal: Failed to initialize sched plugin" in str(error.value)
    assert not (tmp_path / "lab").exists()


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_controller_with_a_port_that_is_taken_meanwhile_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mirage.lab.real.private_cluster._NODE_S", 3.0)
    cluster = PrivateCluster(LabSpec(directory=tmp_path / "lab", nodes=1))
    cluster.write()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.spec.port))
        taken.listen()
        with pytest.raises(SlurmUnreachable, match=r"^slurmctld ended after its start; slurmctld\.log"):
            cluster.up()
    cluster.purge()


@pytest.mark.slow
@pytest.mark.real_slurm
def test_its_end_ends_jobs_and_what_they_started(private_cluster) -> None:
    """Also a job that begins because the one that it waits for has just been ended."""
    cluster = private_cluster(nodes=1)
    words = ["sbatch", "--parsable", "-t9", "-o", "/dev/null", "--wrap", "sleep 617"]
    first = int(cluster.run(*words))
    cluster.run(*words[:-2], f"--dependency=afterany:{first}", *words[-2:])
    until(lambda: sleepers() == 1, 20, "a job runs")
    cluster.down()
    until(lambda: sleepers() == 0, 5, "they are ended")


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
    slurm, found = SlurmClient(SystemRunner(cluster.environment)), []

    def accounted() -> bool:
        found[:] = [one for one in slurm.accounting(int(time.time()) - 600) if one.id == int(job) and one.exit_code]
        return bool(found)

    until(accounted, 10, "its end is accounted for")
    assert (found[0].exit_code, found[0].comment, found[0].nodes) == (3, "mirage:x:1", 1)


@pytest.mark.slow
@pytest.mark.real_slurm
def test_its_end_ends_what_jobs_started_with_an_emptied_environment(private_cluster) -> None:
    cluster = private_cluster(nodes=1)
    work = "env -i sleep 617 & env -i setsid sh -c 'sleep 617; true' & wait"
    cluster.run("sbatch", "-t9", "-o", "/dev/null", "--wrap", work)
    until(lambda: sleepers() == 2, 20, "its programs run")
    cluster.down()
    until(lambda: sleepers() == 0, 5, "they are ended")


@pytest.mark.slow
@pytest.mark.real_slurm
def test_every_cluster_has_a_name_and_a_home_of_its_own(private_cluster) -> None:
    """Also where its accounts are: they are the named cluster's."""
    one, two = private_cluster(nodes=1, gpus=0), private_cluster(nodes=1, gpus=0, accounting=True)
    names = []
    for cluster in (one, two):
        name = SlurmClient(SystemRunner(cluster.environment)).configuration()["clustername"]
        assert name == cluster.spec.cluster_name
        assert re.fullmatch("lab[a-z]{4}", name)
        names.append(name)
    assert names[0] != names[1]
    assert two.run("sacctmgr", "-nP", "show", "cluster", "format=cluster").split() == [names[1]]
    assert two.run("sacctmgr", "-nP", "show", "assoc", "where", "account=research", "format=cluster,account").split()
    words = [sys.executable, "-m", "mirage", "lab"]
    for cluster in (one, two):
        folder = str(cluster.spec.directory)
        names = subprocess.run([*words, "env", folder], capture_output=True, text=True, check=True).stdout
        assert f"export MIRAGE_HOME={folder}/mirage-home\nexport MIRAGE_STORE=''\nexport MIRAGE_QUEUE=''\n" in names
        shell = {**os.environ, "MIRAGE_STORE": "sqlite:////elsewhere/store.db", "MIRAGE_HOME": "/elsewhere"}
        inside = [*words, "run", folder, sys.executable, "-m", "mirage", "agent", "status", "--json"]
        done = subprocess.run(inside, env=shell, capture_output=True, text=True)
        assert f"sqlite:///{folder}/mirage-home/store.db" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.real_slurm
def test_its_end_ends_the_agent_of_its_chains(private_cluster, tmp_path: Path) -> None:
    cluster = private_cluster(nodes=1, gpus=0, speed=20)
    lab, directory = [sys.executable, "-m", "mirage", "lab"], str(cluster.spec.directory)
    started = subprocess.Popen(
        [*lab, "run", directory, sys.executable, "-m", "mirage", "agent", "run"], stderr=subprocess.DEVNULL
    )
    AGENTS.append(started)
    shown = [*lab, "run", directory, sys.executable, "-m", "mirage", "agent", "status"]
    until(lambda: subprocess.run(shown, capture_output=True).returncode == 0, 60, "the agent works")
    subprocess.run([*lab, "down", directory], check=True)
    assert started.wait(60) == 0


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_shell_on_a_fast_clock_can_end_and_start_the_cluster(private_cluster) -> None:
    """Time-outs are real seconds there, too: a second of that clock is a sixtieth of one."""
    cluster = private_cluster(nodes=2, gpus=0, speed=60)
    shell = {**os.environ, **cluster.user_environment}
    words, directory = [sys.executable, "-m", "mirage", "lab"], str(cluster.spec.directory)
    for command in ("down", "up", "status"):
        done = subprocess.run([*words, command, directory], env=shell, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
    assert "slurmctld" in done.stdout
    assert "idle" in cluster.run("sinfo")


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_reader_that_has_gone_away_ends_no_daemon(private_cluster) -> None:
    """The pipe of ``mirage lab up`` to ``true`` breaks, and the cluster runs."""
    cluster = private_cluster(nodes=2, gpus=0)
    cluster.down()
    mirage = f"{sys.executable} -m mirage lab up --json {cluster.spec.directory} 2>&1"
    subprocess.run(["bash", "-c", f"{mirage} | true"], check=True)
    until(lambda: set(cluster.running()) >= {"slurmctld", "munged", "n1", "n2"}, 30, "it runs")
    until(lambda: "idle" in cluster.run("sinfo"), 20, "it works")


@pytest.mark.real_slurm
@pytest.mark.slow
def test_slurm_charges_accounts_for_the_cpus_that_a_view_shows(private_cluster, tmp_path: Path) -> None:
    """In ten minutes: jobs of 1 CPU on each of two nodes, of 6 CPUs, and of a whole node of 8."""
    cluster = private_cluster(nodes=3, gpus=0, cpus=8, memory_mib=8000, accounting=True, speed=60)
    for words in ("-N2 -n2 -A research", "-c 6 -A serving", "-N1 --exclusive -A serving"):
        submit(cluster, tmp_path, "sleep 600", "-t", "60", *words.split())
    client = SlurmClient(SystemRunner(cluster.environment), clock=lambda: float(cluster.run("date", "+%s")))
    until(lambda: len([job for job in client.accounting(0) if job.end_s > 0]) == 3, 40, "all jobs are accounted for")
    time.sleep(1.5)  # PriorityCalcPeriod is a minute
    shares = cluster.run("sshare", "--noheader", "--parsable2", "--format=Account,RawUsage").splitlines()
    charged = {account.strip(): int(usage) for account, usage in (line.split("|") for line in shares)}
    names = Names()
    view = view_of(client.observe(), client.machine(), ended_of(client.accounting(0), names), names)
    assert sorted(view.ended.cpus.tolist()) == [1, 6, 8]
    of_account = replace(view, ended=replace(view.ended, user=view.ended.account))
    used, _ = use_by_user(of_account, 86_400)
    found = {name: used[code] for name, code in names.codes["account"].items()}
    assert found == pytest.approx({name: charged[name] for name in ("research", "serving")}, rel=0.05)


ODD_NAMES = ("train_v3_017", "a | b, c", "Größe 7", "none", "x JobId=7 Account=root", "two\nlines")


@pytest.mark.real_slurm
@pytest.mark.slow
def test_names_and_accounts_are_read_word_for_word_from_queue_and_accounting(private_cluster, tmp_path: Path) -> None:
    """Waiting and ended jobs of one name are alike in a view, however Slurm prints it."""
    cluster = private_cluster(nodes=1, accounting=True)
    ran = [submit(cluster, tmp_path, "true", "-J", name) for name in ODD_NAMES]
    for job in ran:
        ended(cluster, job)
    waits = [submit(cluster, tmp_path, "true", "--hold", "-J", name) for name in ODD_NAMES]
    client = SlurmClient(SystemRunner(cluster.environment), clock=time.time)
    by_scontrol = ScontrolClient(SystemRunner(cluster.environment), clock=time.time)
    names = {str(job.id): job.name for job in client.observe().jobs}
    assert [names[job] for job in waits] == list(ODD_NAMES)
    shown = {str(job.id): (job.name, job.account) for job in by_scontrol.observe().jobs}
    single = [(job, name) for job, name in zip(waits, ODD_NAMES) if "\n" not in name]  # scontrol breaks its line there
    assert [shown[job][0] for job, _ in single] == [name for _, name in single]
    assert "root" not in {account for _, account in shown.values()}

    def accounted() -> bool:
        jobs = {str(job.id): job for job in client.accounting(0)}
        return all(job in jobs and jobs[job].end_s > 0 for job in ran)

    until(accounted, 30, "all jobs are accounted for")
    names = Names()
    view = view_of(client.observe(), client.machine(), ended_of(client.accounting(0), names), names)
    held = dict(zip(map(str, view.held.id.tolist()), view.held.name.tolist()))
    assert [held[job] for job in waits] == [names.codes["name"][fold_name(name)] for name in ODD_NAMES]
    assert sorted(view.ended.name.tolist()) == sorted(held.values())
    assert len(set(held.values())) == len(ODD_NAMES)
    assert set(view.held.account) == set(view.ended.account), "queue and accounting tell the same account"
