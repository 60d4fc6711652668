"""One job from ``scontrol show job`` (22.05.8), and the options that it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.errors import ConfigurationError
from mirage.slurm.sbatch_options import Chosen
from mirage.slurm.text.job_details import differing, options_of_line, options_shown, other_files, read_job_details

JOB = """JobId=3 JobName=name with Spaces=2
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=8025 Nice=7 Account=research QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:09 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime=2026-11-26T15:42:01 EligibleTime=2026-11-26T15:42:01
   AccrueTime=Unknown
   Partition=main AllocNode:Sid=localhost:22865
   ReqNodeList=(null) ExcNodeList=n[7-8]
   NodeList=n1
   BatchHost=n1
   NumNodes=2 NumCPUs=64 NumTasks=6 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=64,mem=2G,node=1,billing=64,gres/gpu=8
   Socks/Node=* NtasksPerN:B:S:C=3:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=2G MinTmpDiskNode=0
   Features=a100 DelayBoot=00:00:00
   OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ada/my job.sh a b c
   WorkDir=/home/ada/two words
   Comment=mine: Partition=other
   StdErr=/home/ada/two words/log 3.txt
   StdIn=/dev/null
   StdOut=/home/ada/two words/log 3.txt
   Power=
   TresPerNode=gres:gpu:a100:2
   CpusPerTres=gres:gpu:12
   """

PLAIN = """JobId=41 JobName=job.sh
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=Partition_Limit TimeMin=N/A
   NumNodes=1-4 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ada/job.sh
   WorkDir=/home/ada
   StdErr=/home/ada/slurm-41.out
   StdIn=/dev/null
   StdOut=/home/ada/slurm-41.out
"""


def test_paths_and_texts_with_spaces_are_read_whole() -> None:
    job = read_job_details(JOB)
    assert (job.number, job.user, job.name) == (3, "ada", "name with Spaces=2")
    assert (job.command, job.directory) == ("/home/ada/my job.sh a b c", "/home/ada/two words")
    assert (job.comment, job.row["Partition"], job.is_batch) == ("mine: Partition=other", "main", True)
    assert "Licenses" not in job.row, "a missing value"


def test_the_options_that_would_request_these_resources() -> None:
    assert options_shown(read_job_details(JOB)) == {
        "partition": "main", "account": "research", "qos": "normal", "constraint": "a100", "exclude": "n[7-8]",
        "nodes": "2", "time": "00:10:00", "job-name": "name with Spaces=2", "ntasks": "6", "ntasks-per-node": "3",
        "cpus-per-task": "4", "mem": "2G", "gres": "gpu:a100:2", "cpus-per-gpu": "12", "exclusive": None,
        "no-requeue": None, "nice": "7", "output": "/home/ada/two words/log %j.txt",
    }  # fmt: skip
    assert options_shown(read_job_details(PLAIN)) == {"nodes": "1-4", "job-name": "job.sh"}, (
        "sbatch's defaults are none"
    )


@pytest.mark.parametrize(
    ("shown", "base", "left"),
    [
        ({"time": "00:10:00"}, {"time": "10"}, {}),
        ({"time": "00:10:00"}, {"time": "1:00:00"}, {"time": "00:10:00"}),
        ({"nodes": "2"}, {"nodes": "1-4"}, {}),
        ({"nodes": "8"}, {"nodes": "1-4"}, {"nodes": "8"}),
        ({"nodes": "1"}, {}, {}),
        ({"gres": "gpu:a100:2"}, {"gpus-per-node": "2"}, {}),
        ({"gres": "gpu:2"}, {"gres": "gpu:8"}, {"gres": "gpu:2"}),
        ({"mem-per-cpu": "1000M"}, {"mem": "0"}, {}),
        ({"partition": "gpu"}, {"partition": "cpu"}, {"partition": "gpu"}),
        ({"output": "/x/log.3"}, {"output": "log.%j"}, {}),
        ({"exclusive": None}, {"exclusive": None}, {}),
    ],
)
def test_only_what_the_script_does_not_request_is_added(shown: Chosen, base: Chosen, left: Chosen) -> None:
    assert differing(shown, base) == left


@pytest.mark.parametrize(
    ("out", "error", "base", "left"),
    [
        ("/home/ada/job.sh-41.out", "/home/ada/job.sh-41.out", {"output": "%x-%j.out"}, {}),
        ("/home/ada/ada-0041.out", "/var/log/41", {"output": "./%u-%4j.out", "error": "/var/log/%A"}, {}),
        ("/home/ada/n1-41.out", "/home/ada/100%.out", {"output": "%N-%j.out", "error": "100%%.out"}, {}),
        ("/home/ada/ad2.out", "/home/ada/ad2.out", {"output": "%x-%j.out"}, {"output": "/home/ada/ad2.out"}),
        ("/home/ada/job.sh-41.out", "/tmp/e-41", {"error": "%x"}, {"error": "/tmp/e-%j"}),
        ("/home/ada/slurm-41.out", "/dev/null", {"output": "log"}, {"output": "/home/ada/slurm-%j.out"}),
        ("/home/ada/1", "/home/ada/1", {"output": "1", "input": "data"}, {"input": "/dev/null"}),
    ],
)
def test_a_file_of_the_queue_counts_where_no_pattern_of_the_script_names_it(
    out: str, error: str, base: Chosen, left: Chosen
) -> None:
    job = read_job_details(PLAIN)
    job = replace(job, row={**job.row, "StdOut": out, "StdErr": error})
    assert other_files(job, base) == left


def test_a_command_line_counts_only_if_it_names_the_script_of_the_job() -> None:
    job = read_job_details(PLAIN)
    line = "sbatch -p gpu --begin=now+1hour -o x-%j --open-mode append job.sh -t 5"
    assert options_of_line(line, job) == {"partition": "gpu", "output": "x-%j", "open-mode": "append"}
    assert options_of_line("sbatch -J two words job.sh", job) is None, "its words cannot be told apart"
    assert options_of_line("sbatch --no-such-option job.sh", job) is None
    wrapped = read_job_details(PLAIN.replace("Command=/home/ada/job.sh", "Command=(null)"))
    assert options_of_line("sbatch -t 5 --wrap sleep 200", wrapped) == {"time": "5"}


def test_several_jobs_are_none() -> None:
    with pytest.raises(ConfigurationError, match="shows 2 jobs for this number; give the number of a single job"):
        read_job_details(f"{PLAIN}\n\n{JOB}")


def test_tasks_of_arrays_and_heterogeneous_jobs_show_it() -> None:
    task = read_job_details(JOB.replace("JobId=3 ", "JobId=3 ArrayJobId=2 ArrayTaskId=1-2%1 ArrayTaskThrottle=1 "))
    assert (task.row["ArrayJobId"], task.name) == ("2", "name with Spaces=2")
    part = read_job_details(JOB.replace("JobId=3 ", "JobId=3 HetJobId=3 HetJobOffset=0 "))
    assert (part.row["HetJobId"], part.name) == ("3", "name with Spaces=2")
