"""``sbatch``, ``scancel`` and ``scontrol``: what they do, print and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.job_state import JobState
from mirage.lab.commands.invocation import CommandOutput, WantsScript
from mirage.sim.cluster import Cluster, NodeGroup, Partition, Reservation
from mirage.slurm.sbatch_options import LETTERS
from tests.support.faulty_slurm import FaultySlurm
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, command, job_of, small_slurm, submit

SECONDS = {"SLURM_TIME_FORMAT": "%s"}
FINE = CommandOutput()


@pytest.fixture
def slurm(folder: Path) -> FaultySlurm:
    """Jobs 1 to 4 of others; 5 of ours runs, 6 is held, 7 waits for it."""
    slurm = small_slurm(at_s=5, **FOUR_JOBS)
    submit(slurm, folder / "job.sh", time="10")
    submit(slurm, folder / "job.sh", hold=None)
    submit(slurm, folder / "job.sh", dependency="afterany:6")
    slurm.sleep(35)
    return slurm


def test_sbatch_prints_the_number(folder: Path) -> None:
    slurm = small_slurm()
    assert command(slurm, folder, "sbatch job.sh") == CommandOutput("Submitted batch job 1\n")
    assert command(slurm, folder, "sbatch --parsable -N 2 job.sh a -b") == CommandOutput("2\n")
    made = slurm.own[2].submission
    assert (made.script, made.options, made.arguments, made.directory) == (
        f"{folder}/job.sh", {"nodes": "2"}, ("a", "-b"), str(folder)
    )  # fmt: skip
    (folder / "below").mkdir()
    command(slurm, folder, f"sbatch -D {folder}/below job.sh")
    assert slurm.own[3].submission.directory == f"{folder}/below"


def test_sbatch_takes_options_from_the_environment_below_its_own(folder: Path) -> None:
    slurm = small_slurm()
    (folder / "asks.sh").write_text("#!/bin/sh\n#SBATCH -t 9 -J script --comment script -N 2\ntrue\n")
    message = {"SBATCH_TIMELIMIT": "7", "SBATCH_JOB_NAME": "said", "SBATCH_COMMENT": "said", "SBATCH_ACCOUNT": "phys"}
    command(slurm, folder, "sbatch -J typed asks.sh", {**message, "USER": "x"})
    job = job_of(slurm, 1)
    assert (job.name, job.comment, job.limit_s, job.nodes, job.account) == ("typed", "said", 420, 2, "phys")


def test_sbatch_stores_scripts_that_are_no_files(folder: Path) -> None:
    slurm = small_slurm()
    with pytest.raises(WantsScript):
        command(slurm, folder, "sbatch -t 3")
    assert command(slurm, folder, "sbatch -t 3", script="#!/bin/sh\n#SBATCH -N 3\n").out == "Submitted batch job 1\n"
    assert command(slurm, folder, ["sbatch", "--wrap", "echo hi"]).out == "Submitted batch job 2\n"
    command(slurm, folder, ["sbatch", "-J", "own", "--wrap=true"])
    assert [(slurm.own[k].name, slurm.own[k].request.nodes) for k in (1, 2, 3)] == [
        ("sbatch", 3),
        ("wrap", 1),
        ("own", 1),
    ]
    texts = [Path(slurm.own[k].submission.script).read_text() for k in (2, 3)]
    assert texts == ["#!/bin/sh\necho hi\n", "#!/bin/sh\ntrue\n"]


FAILED = "sbatch: error: Batch job submission failed: "
TRY = '\nTry "sbatch --help" for more information'


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        ("-p no", f"sbatch: error: invalid partition specified: no\n{FAILED}Invalid partition name specified", 1),
        ("-t soon", "sbatch: error: Invalid --time specification", 1),
        ("-t UNLIMITED", f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)", 1),
        ("-t 0", f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)", 1),
        ("--wrap=true", "sbatch: error: Script arguments not permitted with --wrap option", 1),
        ("--nope", "sbatch: unrecognized option '--nope'; did you mean --nodes?" + TRY, 255),
        ("-Z", f"sbatch: invalid option -- 'Z'; sbatch knows -{' -'.join(sorted(LETTERS))}{TRY}", 255),
    ],
)  # fmt: skip
def test_sbatch_refuses(folder: Path, words: str, message: str, status: int) -> None:
    slurm = small_slurm(Cluster((NodeGroup("node", 4),), (Partition("main", max_limit_s=3600),)))
    assert command(slurm, folder, f"sbatch {words} job.sh") == CommandOutput("", message + "\n", status)
    assert slurm.own == {}


def test_sbatch_of_a_script_that_is_not_there_or_requests_nonsense(folder: Path) -> None:
    slurm = small_slurm()
    (folder / "odd.sh").write_text("#!/bin/sh\n#SBATCH --nope\n")
    assert command(slurm, folder, "sbatch no.sh").err == f"sbatch: error: Unable to open file {folder}/no.sh\n"
    assert command(slurm, folder, "sbatch odd.sh").err.startswith(
        "sbatch: error: line 2 of the script, '#SBATCH --nope': unrecognized option '--nope'"
    )


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("scancel 5", [5]),
        ("scancel 5 6 999", [5, 6]),
        ("scancel --me", [5, 6, 7]),
        ("scancel -u me -t PD", [6, 7]),
        ("scancel -t running --me", [5]),
        ("scancel -n job.sh -q", [5, 6, 7]),
        ("scancel -p batch -n nope", []),
    ],
)
def test_scancel(slurm: FaultySlurm, folder: Path, line: str, gone: list[int]) -> None:
    assert command(slurm, folder, line) == FINE
    assert [number for number, job in slurm.own.items() if job.outcome is JobState.CANCELLED] == gone


def test_scancel_sends_a_signal_to_what_runs(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "scancel -b -s SIGUSR1 5") == FINE
    slurm.sleep(1)
    assert command(slurm, folder, "scancel --signal=WINCH 5") == CommandOutput(
        "", "scancel: error: Kill job error on job id 5: Invalid job id specified\n", 1
    ), "it has ended of the first"
    assert slurm.own[5].signals == [(BEGIN_S + 40, "USR1")]
    assert (slurm.own[5].outcome, slurm.own[5].exits) == (JobState.FAILED, (0, 10))


KILL = "scancel: error: Kill job error on job id {}: "
NO_ENTITY = 'No valid entity in update command\nInput line must include "JobId" or "PartitionName"'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("scancel", "scancel: error: No job identification provided"),
        ("scancel -q", "scancel: error: No job identification provided"),
        ("scancel 5 x", "scancel: error: Invalid job id x"),
        ("scancel -s NOPE 5", "Unknown job signal: NOPE"),
        ("scancel -s USR2 6", KILL.format(6) + "Job can not be altered now, try again later"),
        ("scancel -s USR2 999", KILL.format(999) + "Invalid job id specified"),
        ("scancel -s USR2 2", KILL.format(2) + "Access/permission denied"),
        ("scancel 2", KILL.format(2) + "Access/permission denied"),
        ("scontrol", "invalid keyword: "),
        ("scontrol nope 5", "invalid keyword: nope"),
        ("scontrol hold", "too few arguments for keyword:hold"),
        ("scontrol hold x", "Invalid job id specified for job x"),
        ("scontrol hold 999", "Invalid job id specified for job 999"),
        ("scontrol hold 5", "Job is no longer pending execution for job 5"),
        ("scontrol requeue 6", "Job is pending execution for job 6"),
        ("scontrol requeue 999", "Invalid job id specified for job 999"),
        ("scontrol requeue 2", "Access/permission denied for job 2"),
        ("scontrol update jobid=2 comment=x", "Access/permission denied for job 2"),
        ("scontrol update jobid=6", "No changes specified"),
        ("scontrol update jobid=6,x comment=a", "Invalid job id specified for job x"),
        ("scontrol update comment=x", NO_ENTITY),
        ("scontrol update partitionname=batch", NO_ENTITY),
        ("scontrol update jobid=6 nice=3", "Update of this parameter is not supported: nice=3\nRequest aborted"),
        ("scontrol update jobid=6 partition=nowhere", "Invalid partition name specified"),
        ("scontrol update jobid=6 timelimit=soon", "Invalid TimeLimit value"),
        ("scontrol update jobid=5 timelimit=11", "Access/permission denied for job 5"),
        ("scontrol update jobid=5 dependency=", "Job is no longer pending execution for job 5"),
        ("scontrol update jobid=7 dependency=foo:1", "Job dependency problem for job 7"),
        ("scontrol update jobid=7 starttime=soon", "Invalid time specification (pos=0): soon"),
        ("scontrol show job 999", "slurm_load_jobs error: Invalid job id specified"),
        ("scontrol show nope", "invalid entity:nope for keyword:show "),
        ("scontrol update partitionname=nowhere nodes=n1", "Invalid partition name specified"),
        ("scontrol update partitionname=batch nodes=n9", "Invalid node name specified: n9"),
        ("scontrol update partitionname=batch nodes=n1", "the simulated Slurm moves n1 to n4 together or not at all"),
    ],
)  # fmt: skip
def test_scancel_and_scontrol_refuse_and_change_nothing(
    slurm: FaultySlurm, folder: Path, line: str, words: str
) -> None:
    before = slurm.observe()
    assert command(slurm, folder, line) == CommandOutput("", words + "\n", 1)
    assert slurm.observe() == before


def test_scontrol_changes_jobs(slurm: FaultySlurm, folder: Path) -> None:
    for line in (
        "scontrol update JobId=6,7 TimeLimit=2:30 Comment=two",
        "scontrol update jobid=7 JobName=last Dependency=afterok:5 StartTime=now+50",
        "scontrol release 6",
        "scontrol hold 7,7",
        "scontrol -Q ping",
    ):
        assert command(slurm, folder, line).status == 0, line
    six, seven = job_of(slurm, 6), job_of(slurm, 7)
    assert (six.limit_s, six.comment, six.name, six.reason) == (150, "two", "job.sh", "Priority")
    assert (seven.limit_s, seven.comment, seven.name) == (150, "two", "last")
    assert (seven.reason, seven.priority, seven.dependency) == ("JobHeldUser", 0.0, "afterok:5(unfulfilled)")
    command(slurm, folder, "scontrol release 7")
    command(slurm, folder, "scontrol update jobid=7 dependency=")
    assert (job_of(slurm, 7).reason, job_of(slurm, 7).eligible_s) == ("BeginTime", BEGIN_S + 90)


def test_a_job_that_was_eligible_retains_its_age(slurm: FaultySlurm, folder: Path) -> None:
    now_s = slurm.now_s
    aged = submit(slurm, folder / "job.sh", time="10", nodes="4")
    never = submit(slurm, folder / "job.sh", time="10", nodes="4", hold=None)
    slurm.sleep(10)
    for line in (f"hold {aged}", f"release {never}"):
        assert command(slurm, folder, f"scontrol {line}") == FINE
    held = job_of(slurm, aged)
    assert (held.reason, held.accrues_s) == ("JobHeldUser", now_s)
    assert f" AccrueTime={now_s} " in command(slurm, folder, f"scontrol -o show job {aged}", SECONDS).out
    assert command(slurm, folder, f"squeue -h -j {aged} -O AccrueTime", SECONDS).out.strip() == str(now_s)
    slurm.sleep(10)
    command(slurm, folder, f"scontrol release {aged}")
    assert [job_of(slurm, job).accrues_s for job in (aged, never)] == [now_s, now_s + 10]


def test_scontrol_requeues(slurm: FaultySlurm, folder: Path) -> None:
    assert command(slurm, folder, "scontrol requeue 5") == FINE
    back = job_of(slurm, 5)
    assert (back.state, back.reason, back.eligible_s) == (JobState.PENDING, "BeginTime", BEGIN_S + 60)
    assert command(slurm, folder, "scontrol requeue 5").err == "Job is pending execution for job 5\n"
    slurm.sleep(2000)
    assert slurm.own[5].outcome is JobState.COMPLETED
    again = submit(slurm, folder / "job.sh", time="10")
    slurm.sleep(10)
    assert command(slurm, folder, f"scontrol requeuehold {again}") == FINE
    assert (job_of(slurm, again).reason, slurm.own[again].restarts) == ("JobHeldUser", 1)


def test_scontrol_shows_a_job(slurm: FaultySlurm, folder: Path) -> None:
    one_line = (
        "JobId=7 JobName=job.sh UserId=me(0) Priority=1 Nice=0 Account=lab QOS=normal JobState=PENDING "
        "Reason=Dependency Dependency=afterany:6(unfulfilled) ExitCode=0:0 RunTime=00:00:00 TimeLimit=00:01:00 "
        f"SubmitTime={BEGIN_S + 5} EligibleTime=Unknown AccrueTime=Unknown StartTime=Unknown EndTime=Unknown "
        "Partition=batch NodeList=(null) NumNodes=1 NumCPUs=1 TRES=cpu=1,node=1,billing=1 OverSubscribe=NO "
        "Comment=(null)\n"
    )
    assert command(slurm, folder, "scontrol -o show job 7", SECONDS) == CommandOutput(one_line)
    assert command(slurm, folder, "scontrol show job 7", SECONDS) == CommandOutput(
        one_line.replace(" ", "\n   ") + "\n"
    )
    running = command(slurm, folder, "scontrol show job 2 --oneliner", SECONDS).out.split()
    assert {"UserId=bob(0)", "RunTime=00:00:40", f"EndTime={BEGIN_S + 600}", "NodeList=n[3-4]", "NumNodes=2"} <= {
        *running
    }
    assert command(slurm, folder, "scontrol -o show jobs").out.count("JobId=") == 7


def test_scontrol_shows_nodes_partitions_and_options(folder: Path) -> None:
    groups = (NodeGroup("big", 2, 8, 64), NodeGroup("small", 1, 0, 16))
    slurm = small_slurm(Cluster(groups, (Partition("gpu", ("big",), 3, max_limit_s=1800), Partition("all")), True))
    assert command(slurm, folder, "scontrol -o show node").out == (
        "NodeName=n1 CPUTot=64 Gres=gpu:8 State=IDLE Partitions=gpu,all\n"
        "NodeName=n2 CPUTot=64 Gres=gpu:8 State=IDLE Partitions=gpu,all\n"
        "NodeName=n3 CPUTot=16 Gres=(null) State=IDLE Partitions=all\n"
    )
    assert command(slurm, folder, "scontrol show nodes n[2-3]").out.count("NodeName=") == 2
    assert command(slurm, folder, "scontrol -o show partition gpu").out == (
        "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
        "DefaultTime=00:30:00 Hidden=NO MaxTime=00:30:00 MinNodes=0 Nodes=n[1-2] PriorityTier=1 OverSubscribe=NO "
        "State=UP TotalNodes=2\n"
    )
    assert command(slurm, folder, "scontrol update PartitionName=gpu Nodes=n[1-3]") == FINE
    assert "Nodes=n[1-3]" in command(slurm, folder, "scontrol -o show partition gpu").out
    text = command(slurm, folder, "scontrol show config", SECONDS).out.splitlines()
    assert text[0] == f"Configuration data as of {BEGIN_S}"
    assert {"minjobage               = 300 sec", "selecttype              = select/cons_tres"} <= {*text}
    assert sorted(line.index(" = ") for line in text[1:]) == [23] * 21 + [24], "as scontrol prints a longer name"
    assert "clustername             = simulated" in text


def test_scontrol_shows_known_reservations_that_have_not_ended(folder: Path) -> None:
    assert command(small_slurm(), folder, "scontrol show res").out == "No reservations in the system\n"
    groups = (NodeGroup("big", 2, 8, 64), NodeGroup("small", 3, 0, 16))
    reservations = (
        Reservation(BEGIN_S + 100, BEGIN_S + 3700, "small", 2),
        Reservation(BEGIN_S + 100, BEGIN_S + 200, "big", 1, announced_s=BEGIN_S + 50),
    )
    slurm = small_slurm(Cluster(groups, (Partition("all"),), reservations=reservations), discipline="slurm")
    line = (
        f"ReservationName=r0 StartTime={BEGIN_S + 100} EndTime={BEGIN_S + 3700} Duration=01:00:00 Nodes=n[4-5] "
        "NodeCnt=2 PartitionName=(null) Flags=MAINT Users=root Groups=(null) Accounts=(null) Licenses=(null) "
        "State=INACTIVE MaxStartDelay=(null)\n"
    )
    assert command(slurm, folder, "scontrol -o show reservation", SECONDS).out == line
    assert [one.name for one in slurm.reservations()] == ["r0"], "the other one is not announced"
    slurm.sleep(60)
    assert [(one.name, one.nodes) for one in slurm.reservations()] == [("r0", ("n4", "n5")), ("r1", ("n2",))]
    slurm.sleep(300)
    assert "State=ACTIVE" in command(slurm, folder, "scontrol -o show reservation r0").out
    assert [one.name for one in slurm.reservations()] == ["r0"], "the other one is over"
