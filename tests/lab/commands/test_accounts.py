"""``sacct``, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.lab.commands.invocation import CommandOutput
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, command, small_slurm, submit

SECONDS = {"SLURM_TIME_FORMAT": "%s"}


@pytest.fixture
def slurm(folder: Path) -> FaultySlurm:
    """After 440 s: of the trace one job failed, one runs; two of ours were cancelled."""
    slurm = small_slurm(at_s=5, **FOUR_JOBS)
    submit(slurm, folder / "job.sh", job_name="a-long-name", comment="one")
    submit(slurm, folder / "job.sh", hold=None, account="phys")
    slurm.sleep(35)
    slurm.cancel(5)
    slurm.cancel(6)
    slurm.sleep(400)
    return slurm


def test_as_it_comes(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "sacct").out == (
        "     JobID    JobName  Partition    Account      State   ExitCode \n"
        "---------- ---------- ---------- ---------- ---------- ---------- \n"
        "         1          a      batch        lab     FAILED        1:0 \n"
        "         2          b      batch        lab    RUNNING        0:0 \n"
        "         3          c      batch        lab    PENDING        0:0 \n"
        "         4          d      batch        lab    PENDING        0:0 \n"
        "         5 a-long-na+      batch        lab CANCELLED+        0:0 \n"
        "         6     job.sh      batch       phys CANCELLED+        0:0 \n"
    )


def test_every_field_of_jobs_cancelled_running_and_waiting(slurm: FaultySlurm, folder: Path) -> None:
    fields = (
        "JobID,JobIDRaw,JobName,State,User,Account,Partition,QOS,NNodes,Timelimit,TimelimitRaw,Submit,Eligible,Start,"
        "End,Elapsed,ElapsedRaw,ExitCode,Comment,SubmitLine,Cluster"
    )
    line = f"sbatch --parsable --time=1 --nodes=1 --job-name=a-long-name --comment=one {folder}/job.sh"
    held = f"sbatch --parsable --time=1 --nodes=1 --hold --account=phys {folder}/job.sh"
    submitted_s, cancelled_s = BEGIN_S + 5, BEGIN_S + 40
    assert command(slurm, folder, f"sacct -P -o {fields}", SECONDS).out.splitlines() == [
        fields.replace(",", "|"),
        f"1|1|a|FAILED|ada|lab|batch|normal|1|00:10:00|10|{BEGIN_S}|{BEGIN_S}|{BEGIN_S}|{BEGIN_S + 300}"
        "|00:05:00|300|1:0|||simulated",
        f"2|2|b|RUNNING|bob|lab|batch|normal|2|00:10:00|10|{BEGIN_S}|{BEGIN_S}|{BEGIN_S}|Unknown"
        "|00:07:20|440|0:0|||simulated",
        f"3|3|c|PENDING|ada|lab|batch|normal|3|00:20:00|20|{BEGIN_S + 10}|{BEGIN_S + 10}|Unknown|Unknown"
        "|00:00:00|0|0:0|||simulated",
        f"4|4|d|PENDING|bob|lab|batch|normal|1|00:20:00|20|{BEGIN_S + 20}|{BEGIN_S + 20}|Unknown|Unknown"
        "|00:00:00|0|0:0|||simulated",
        f"5|5|a-long-name|CANCELLED by 0|me|lab|batch|normal|1|00:01:00|1|{submitted_s}|{submitted_s}|{submitted_s}"
        f"|{cancelled_s}|00:00:35|35|0:0|one|{line}|simulated",
        f"6|6|job.sh|CANCELLED by 0|me|phys|batch|normal|1|00:01:00|1|{submitted_s}|{submitted_s}|{cancelled_s}"
        f"|{cancelled_s}|00:00:00|0|0:0||{held}|simulated",
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("sacct -n -P -o jobid -j 1,4,99", "1\n4\n"),
        ("sacct -nP -o jobid -u me,bob", "2\n4\n5\n6\n"),
        ("sacct -nP -o jobid -s CA", "5\n6\n"),
        ("sacct -nP -o jobid --state=failed,R", "1\n2\n"),
        ("sacct -nP -o jobid --name=a,d", "1\n4\n"),
        ("sacct -nP -o jobid -S now", "2\n3\n4\n"),
        ("sacct -nP -o jobid -S 2026-11-21T00:00:00 -E 2026-11-21T10:00:10", "1\n2\n5\n6\n"),
        ("sacct -nP -o jobid -S 2026-11-21T00:00:00 --endtime=2026-11-21T10:00:11", "1\n2\n3\n5\n6\n"),
        ("sacct -nP -o jobid -S uts1795219200 -E uts1795255210", "1\n2\n5\n6\n"),
        ("sacct -nP -o jobid -S 2026-11-21T00:00:00 -u nobody", ""),
        ("sacct -p -o jobid,user -j 2", "JobID|User|\n2|bob|\n"),
        ("sacct -nP -o jobid,user --delimiter=; -j 2", "2;bob\n"),
        (
            "sacct -X -a -D -o jobid%3,jobname%-8,user%4,state%2 -j 2",
            "Job JobName  User St \n--- -------- ---- -- \n  2 b         bob R+ \n",
        ),
        ("sacct -n -o state%x,user% -j 2", "   RUNNING        bob \n"),
    ],
)
def test_what_is_requested(slurm: FaultySlurm, folder: Path, line: str, found: str) -> None:
    assert command(slurm, folder, line) == CommandOutput(found)


def test_a_field_that_there_is_not(slurm: FaultySlurm, folder: Path) -> None:
    words = 'sacct: error: Invalid field requested: "nope"\n'
    assert command(slurm, folder, "sacct -o jobid,nope") == CommandOutput("", words, 1)


@pytest.mark.usefixtures("newfoundland")
def test_it_covers_time_since_midnight_unless_jobs_are_named(folder: Path) -> None:
    slurm = small_slurm(**FOUR_JOBS)
    slurm.sleep(20 * 3600)
    assert command(slurm, folder, "sacct -nP -o jobid").out == "", "all ended before 3:30 UTC"
    assert command(slurm, folder, "sacct -nP -j 1 -o jobid,submit,end").out == (
        "1|2026-11-21T06:30:00|2026-11-21T06:35:00\n"
    )
    early = small_slurm(at_s=30, submit_s=[0], elapsed_s=[9 * 3600], limit_s=[86_400], nodes=[1])
    early.sleep(16 * 3600)
    assert command(early, folder, "sacct -nP -o jobid,elapsed").out == "1|09:00:00\n", "22:30 of the same day"
