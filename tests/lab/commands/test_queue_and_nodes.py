"""``squeue``, ``sprio`` and ``sinfo``, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.lab.commands.invocation import CommandOutput
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import CapacityChange, Cluster, NodeGroup, Partition
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, command, small_slurm, submit

SECONDS = {"SLURM_TIME_FORMAT": "%s"}


@pytest.fixture
def slurm(folder: Path) -> FaultySlurm:
    """Four jobs of the trace, and four of ours that wait for four different reasons."""
    slurm = small_slurm(at_s=30, **FOUR_JOBS)
    submit(slurm, folder / "job.sh", comment="ours", job_name="e")
    submit(slurm, folder / "job.sh", hold=None)
    submit(slurm, folder / "job.sh", dependency="afterok:5")
    submit(slurm, folder / "job.sh", begin="now+1hour")
    slurm.sleep(10)
    return slurm


def numbers(slurm: FaultySlurm, folder: Path, line: str) -> list[int]:
    answer = command(slurm, folder, line + " -h -o %i")
    assert (answer.err, answer.status) == ("", 0)
    return [int(number) for number in answer.out.split()]


def test_squeue_as_it_comes(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "squeue").out == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                 3     batch        c      ada PD       0:00      3 (Resources)\n"
        "                 4     batch        d      bob PD       0:00      1 (Priority)\n"
        "                 5     batch        e       me PD       0:00      1 (Priority)\n"
        "                 6     batch   job.sh       me PD       0:00      1 (JobHeldUser)\n"
        "                 7     batch   job.sh       me PD       0:00      1 (Dependency)\n"
        "                 8     batch   job.sh       me PD       0:00      1 (BeginTime)\n"
        "                 1     batch        a      ada  R       0:40      1 n1\n"
        "                 2     batch        b      bob  R       0:40      2 n[2-3]\n"
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("squeue -u ada", [3, 1]),
        ("squeue --user=ada,bob", [3, 4, 1, 2]),
        ("squeue --me", [5, 6, 7, 8]),
        ("squeue -t R", [1, 2]),
        ("squeue --states=running,PD", [3, 4, 5, 6, 7, 8, 1, 2]),
        ("squeue -t CD", []),
        ("squeue -j 2,4,99", [4, 2]),
        ("squeue -n d,e", [4, 5]),
        ("squeue -p batch -u ada -t PD", [3]),
        ("squeue -p nowhere", []),
        ("squeue -t R -t PD -u bob", [4]),
        ("squeue --part batch --jobs 8", [8]),
    ],
)
def test_squeue_shows_the_requested_jobs(slurm: FaultySlurm, folder: Path, line: str, found: list[int]) -> None:
    assert numbers(slurm, folder, line) == found


def test_squeue_shows_ended_jobs_on_request_and_forgets_them(slurm: FaultySlurm, folder: Path) -> None:
    slurm.sleep(400)
    assert numbers(slurm, folder, "squeue -u ada,bob") == [3, 4, 2]
    assert numbers(slurm, folder, "squeue -u ada,bob -t all") == [3, 4, 2, 1]
    assert numbers(slurm, folder, "squeue -j 1") == [1]
    slurm.sleep(159)
    assert numbers(slurm, folder, "squeue -j 1") == [1], "it ended 299 s ago"
    slurm.sleep(1)
    assert command(slurm, folder, "squeue -j 1").err == "slurm_load_jobs error: Invalid job id specified\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("squeue -j 99", "slurm_load_jobs error: Invalid job id specified"),
        ("squeue -j 1_2", "slurm_load_jobs error: Invalid job id specified"),
        ("squeue -j abc", "squeue: error: Invalid job id: abc"),
        ("squeue -j 1,x", "squeue: error: Invalid job id: x"),
        ("squeue -t nope", "squeue: error: Invalid job state specified: nope"),
        ("squeue -O jobid,nope", "squeue: error: Invalid job format specification: nope"),
        ("squeue -O jobid,", "squeue: error: Invalid job format specification: "),
    ],
)
def test_squeue_refuses(slurm: FaultySlurm, folder: Path, line: str, words: str) -> None:
    assert command(slurm, folder, line) == CommandOutput("", words + "\n", 1)


def test_every_letter_of_a_running_and_of_a_held_job(folder: Path) -> None:
    cluster = Cluster((NodeGroup("node", 2, 4, 8),), (Partition("gpu"),), True, {"high": 1.0})
    slurm = small_slurm(cluster, Program(run_s=90_061))
    options = {"nodes": "2", "gpus_per_node": "2", "cpus_per_task": "3", "time": "2-00:00:00", "account": "phys"}
    submit(slurm, folder / "job.sh", **options, qos="high", comment="a | b")
    slurm.sleep(90_060)
    submit(slurm, folder / "job.sh", dependency="afterany:1", nodes="1", gpus="1", begin="now+60")
    text = "%i %A %F %T %t %u %a %P %q %K %r %Q %D %C %b %h %l %M %L %V %S %e %E %N %R %k %j"
    running = (
        "1 1 1 RUNNING R me phys gpu high N/A None 1 2 6 gres:gpu:2 OK 2-00:00:00 1-01:01:00 22:59:00 "
        f"{BEGIN_S} {BEGIN_S} {BEGIN_S + 172_800} (null) n[1-2] n[1-2] a | b job.sh\n"
    )
    waiting = (
        "2 2 2 PENDING PD me lab gpu normal N/A Dependency 1 1 1 gres:gpu:1 OK 1:00 0:00 1:00 "
        f"{BEGIN_S + 90_060} N/A N/A afterany:1(unfulfilled)  (Dependency) (null) job.sh\n"
    )
    found = command(slurm, folder, ["squeue", "-h", "-o", text], SECONDS)
    assert found == CommandOutput(waiting + running)
    slurm.sleep(2)
    fields = "TimeLeft:.9,priority:_,exit_code:|,EndTime:_,state:4,tres-alloc:"
    assert command(slurm, folder, ["squeue", "-j", "1", "-O", fields], SECONDS).out == (
        "TIME_LEFTPRIORITY_EXIT_CODE|END_TIME_STATTRES_ALLOC\n"
        f" 22:58:590.00000000000000_0|{BEGIN_S + 90_061}_COMPcpu=6,node=2,billing=6,gres/gpu=4\n"
    )


def test_squeue_prints_what_is_no_field(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, ["squeue", "-j", "2", "-o", "%z [%3i|%.3i|%.2j|%2u] %"]).out == (
        "%z [JOB|JOB|NA|US] %\n%z [2  |  2| b|bo] %\n"
    )


@pytest.mark.usefixtures("newfoundland")
def test_times_are_those_of_this_machine_s_zone(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "squeue -h -j 8 -o %V,%S,%e").out == ("2026-11-21T06:30:30,2026-11-21T07:30:30,N/A\n")


def test_sprio_shows_only_jobs_that_compete(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "sprio").out == (
        "          JOBID PARTITION  PRIORITY\n"
        "              3 batch             1\n"
        "              4 batch             1\n"
        "              5 batch             1\n"
    )
    assert command(slurm, folder, "sprio -h -j 4,6").out == "              4 batch             1\n"
    slurm.sleep(3600)
    slurm.release(6)
    slurm.sleep(1)
    assert command(slurm, folder, "sprio -h -u me").out == ""


TWO_PARTITIONS = Cluster(
    (NodeGroup("big", 2, 8, 64), NodeGroup("small", 2, 0, 16)),
    (Partition("gpu", ("big",), tier=3, max_limit_s=1800), Partition("all", max_limit_s=172_800)),
    True,
)


@pytest.fixture
def nodes(folder: Path) -> FaultySlurm:
    """n1 full, n2 in part, the others idle."""
    slurm = small_slurm(TWO_PARTITIONS, discipline="slurm")
    submit(slurm, folder / "job.sh", partition="gpu", exclusive=None, time="30")
    submit(slurm, folder / "job.sh", partition="gpu", gpus_per_node="1", time="30")
    slurm.sleep(5)
    return slurm


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "sinfo",
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
            "gpu*         up      30:00      1  alloc n1\n"
            "gpu*         up      30:00      1    mix n2\n"
            "all          up 2-00:00:00      1  alloc n1\n"
            "all          up 2-00:00:00      1    mix n2\n"
            "all          up 2-00:00:00      2   idle n[3-4]\n",
        ),
        (
            "sinfo -h -p gpu -o %P|%R|%T|%t|%c|%G|%D|%a|%l|%L|%h|%p|%n|%Z",
            "gpu*|gpu|allocated|alloc|64|gpu:8|1|up|30:00|30:00|NO|3|n1|%Z\n"
            "gpu*|gpu|mixed|mix|64|gpu:8|1|up|30:00|30:00|NO|3|n2|%Z\n",
        ),
        ("sinfo -N -t idle -o %N,%P,%G", "NODELIST,PARTITION,GRES\nn3,all,(null)\nn4,all,(null)\n"),
        ("sinfo -hN -p all -t mixed,alloc -o %N", "n1\nn2\n"),
        ("sinfo -h -t mix -o %N.%R", "n2.gpu\nn2.all\n"),
        ("sinfo -h -p nowhere", ""),
        ("sinfo -h -p all --states=down", ""),
    ],
)
def test_sinfo(nodes: FaultySlurm, folder: Path, line: str, found: str) -> None:
    assert command(nodes, folder, line) == CommandOutput(found)


def test_sinfo_of_nodes_that_leave_while_in_use(folder: Path) -> None:
    changes = (CapacityChange(BEGIN_S + 20, "node", -2),)
    slurm = small_slurm(Cluster((NodeGroup("node", 4),), changes=changes), **FOUR_JOBS)
    slurm.sleep(30)
    assert command(slurm, folder, "sinfo -h -o %t,%T,%N").out == (
        "alloc,allocated,n[1-2]\ndrng,draining,n3\ndown,down,n4\n"
    )
