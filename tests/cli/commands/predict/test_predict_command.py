"""``mirage predict`` by real command lines on the simulated Slurm."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.cli.commands.predict.reported_prediction import pending_job
from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.lab.commands.server import Served, served_slurm
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.predict.start.promise import OPEN, SETTLED
from mirage.predict.start.promise_file import Promises
from mirage.report.terminal.prediction_text import wait_text
from mirage.sim.cluster import Cluster, NodeGroup, Partition, Reservation
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.backend import cluster_of
from mirage.slurm.client import SlurmClient, user_of_process
from mirage.slurm.records import Machine, QueuedJob, Submission
from mirage.trace.table import JobTable

BEGIN_S = 1_790_000_000
NODES = 4
CLUSTER = Cluster(
    (NodeGroup("a", 3), NodeGroup("b", 1)),
    (Partition("main", ("a", "b"), max_limit_s=2 * DAY_S), Partition("small", ("b",), max_limit_s=8 * HOUR_S)),
)
"""Four nodes; one of them is a partition of its own, too."""

ENDLESS = Cluster(CLUSTER.groups, (Partition("main", ("a", "b")),))
"""The same nodes in one partition that takes any limit."""


class Terminal:
    """A user's terminal next to the simulated Slurm."""

    def __init__(self, served: Served, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.served, self.folder, self.capsys = served, folder, capsys
        self.script = folder / "serve.sh"
        self.script.write_text("#!/bin/bash\n#SBATCH -N 2\n#SBATCH --time=4:00:00\nserve\n")

    def type(self, *words: str, status: int = 0) -> str:
        done = main(["predict", *words])
        printed = self.capsys.readouterr()
        assert done == status, printed
        self.stderr = printed.err
        return printed.out

    def json(self, *words: str) -> Any:
        return json.loads(self.type("--json", *words))

    def submit(self, **options: str | None) -> int:
        return self.served.slurm.submit(Submission(str(self.script), options, directory=str(self.folder)))


@pytest.fixture
def terminal(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    utc: None,
) -> Iterator[Terminal]:
    """An hour ago a job took three nodes for eight hours, and a job of all four waits for it.

    Before that, jobs of three nodes and eight hours ran, one after another, one to seven hours of them.
    """
    hours = [1 + k % 7 for k in range(12)]
    began = [BEGIN_S + HOUR_S * sum(hours[:k]) for k in range(12)]
    last_s = began[-1] + hours[-1] * HOUR_S
    others = JobTable.build(
        range(1, 15),
        submit_s=[*began, last_s, last_s + 60],
        elapsed_s=[*(HOUR_S * used for used in hours), 5 * HOUR_S, 2 * HOUR_S],
        limit_s=[8 * HOUR_S] * 14,
        nodes=[3] * 13 + [4],
    )
    machine = getattr(request, "param", CLUSTER)
    slurm = VirtualSlurm(Simulation(machine, workload(others, machine), "slurm"), user=user_of_process())
    slurm.sleep(last_s + HOUR_S - BEGIN_S)
    with served_slurm(slurm) as served:
        monkeypatch.setenv("PATH", served.environment["PATH"])
        monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
        monkeypatch.setattr(cluster, "clock", slurm.clock)
        monkeypatch.chdir(tmp_path)
        yield Terminal(served, tmp_path, capsys)


def test_a_script_is_predicted_with_ranges_and_slurm_s_own_estimate_after_them(terminal: Terminal) -> None:
    report = terminal.json("serve.sh")
    wait = report["wait"]
    assert (report["name"], report["nodes"], report["limit"], report["partition"]) == (
        "serve.sh",
        2,
        4 * HOUR_S,
        "main",
    )
    # The running job may use two to eight hours of which one is gone; the job behind it goes first, for up to eight.
    bounds = [*wait["95%"][:1], *wait["80%"][:1], *wait["50%"][:1], wait["median"]]
    assert bounds == sorted(bounds)
    assert wait["50%"][1] <= wait["80%"][1] <= wait["95%"][1] <= 15 * HOUR_S
    assert HOUR_S < wait["median"] < 10 * HOUR_S
    assert report["slurm"]["wait"] == 15 * HOUR_S, "by limits alone: seven hours of the one and eight of the other"
    assert terminal.served.slurm.own == {}, "nothing is submitted"
    assert report["simulator"] is None, "nobody has calibrated it here"


def test_a_table_has_equal_values_in_local_time(terminal: Terminal) -> None:
    printed = terminal.type("serve.sh").splitlines()
    assert printed[0] == "serve.sh: 2 nodes for 04:00:00 in main"
    assert printed[1].split() == ["queue", "1", "waiting,", "1", "running"]
    assert [line.split()[0] for line in printed[2:]] == ["start", "50%", "80%", "95%", "Slurm"]
    now_s = int(terminal.served.slurm.clock())
    assert printed[-1].split()[1:3] == time.strftime("%Y-%m-%d %H:%M", time.gmtime(now_s + 15 * HOUR_S)).split()
    assert printed[-1].endswith("(in 15:00)")
    assert "ranges not corrected: no promise has been recorded on this cluster yet" in terminal.stderr
    assert "the simulator's faithfulness here is not known yet; `mirage calibrate --site`" in terminal.stderr


def test_options_alone_describe_a_job(terminal: Terminal) -> None:
    report = terminal.json("-N", "1", "-t", "6:00:00")
    assert report["wait"]["95%"] == [0, 0], "one node is free for the seven hours that the running job may yet take"
    assert report["slurm"]["wait"] == 0


def test_a_job_with_a_name_that_is_no_utf_8_is_predicted(terminal: Terminal) -> None:
    assert terminal.type("-J", "a\udcffb", "serve.sh").splitlines()[0] == "a?b: 2 nodes for 04:00:00 in main"
    assert "is not stored" not in terminal.stderr


def test_the_same_question_has_the_same_answer(terminal: Terminal) -> None:
    assert terminal.json("serve.sh")["wait"] == terminal.json("serve.sh")["wait"]


def test_a_job_that_waits_is_predicted_where_it_stands(terminal: Terminal) -> None:
    number = terminal.submit()
    report = terminal.json("--job", str(number))
    assert report["job"] == number
    assert HOUR_S < report["wait"]["median"] < 10 * HOUR_S
    later = terminal.submit(nodes="4")
    both = terminal.json("--mine")
    assert [one["job"] for one in both] == [number, later]
    assert both[0]["wait"] == report["wait"], "what comes behind does not delay it"
    assert both[1]["wait"]["median"] > report["wait"]["median"]


def test_a_held_job_is_not_predicted_and_its_reason_printed(terminal: Terminal) -> None:
    held, dependent = terminal.submit(hold=None), terminal.submit(dependency="afterany:14")
    report = terminal.json("--job", str(held))
    assert report["wait"] is None
    assert "held by its user" in report["why"]
    assert "cannot be predicted: held by its user" in terminal.type("--job", str(held))
    assert "it waits for another job (afterany:14(unfulfilled))" in terminal.type("--job", str(dependent))


def test_what_cannot_be_weighed_is_remarked(terminal: Terminal) -> None:
    report = terminal.json("--array=0-9", "serve.sh")
    assert "it is an array: this is its first task" in report["remarks"]


@pytest.mark.parametrize("known", [0, 40])
def test_a_job_with_a_begin_starts_then_at_the_earliest(terminal: Terminal, known: int) -> None:
    if known:
        late_promises(terminal, ("serve.sh",), known)
    report = terminal.json("--begin=now+3days", "serve.sh")
    assert report["calibration"]["corrected_by"] == known
    assert report["wait"]["95%"][0] >= 3 * DAY_S
    assert terminal.json("--calibration")["open"] == 1
    terminal.type("--begin=010127", "serve.sh", status=1)
    assert "'010127' is not a time; write it as 2026-01-31T12:00" in terminal.stderr


MAINTAINED = replace(
    CLUSTER,
    reservations=(
        Reservation(BEGIN_S + 50 * HOUR_S, BEGIN_S + 60 * HOUR_S, "a", 2),
        Reservation(BEGIN_S + 120 * HOUR_S, BEGIN_S + 121 * HOUR_S, "b", 1),
    ),
)


@pytest.mark.parametrize("terminal", [MAINTAINED], indirect=True)
def test_a_reservation_before_the_end_of_the_job_is_reported(terminal: Terminal) -> None:
    note = "reservation r0 is not considered: 2 nodes from 2026-09-23 16:13 to 2026-09-24 02:13"
    number = terminal.submit(time="2-0")
    for words in (["-t", "2-0", "serve.sh"], ["--job", str(number)]):
        assert [remark for remark in terminal.json(*words)["remarks"] if "considered" in remark] == [note]
    assert note not in terminal.json("-N", "1", "-t", "1", "serve.sh")["remarks"]
    assert note not in terminal.json("-N", "1", "-t", "8:00:00", "-p", "small", "serve.sh")["remarks"]


def test_throttled_tasks_are_reported(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, reason = cluster.client().observe(), "JobArrayTaskLimit"
    tasks = QueuedJob(99, JobState.PENDING, array="1-999%1", reason=reason, partition="main", submit_s=BEGIN_S)
    monkeypatch.setattr(SlurmClient, "observe", lambda _: replace(queue, jobs=(*queue.jobs, tasks)))
    terminal.type("serve.sh")
    assert "note: not simulated: 999 tasks of throttled arrays; the start may be later" in terminal.stderr


@pytest.mark.parametrize("option", ["--hold", "--dependency=afterany:14"])
def test_no_promise_is_stored_of_a_job_that_cannot_start(terminal: Terminal, option: str) -> None:
    terminal.type(option, "serve.sh")
    assert "note: forecast as if" in terminal.stderr
    assert terminal.json("--calibration")["open"] == 0


@pytest.mark.parametrize("words", [["serve.sh"], ["--compare", "serve.sh"], ["--mine"]])
def test_hidden_jobs_are_reported_and_no_promise_is_stored(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    terminal.submit()
    options, queue = cluster.client().configuration(), cluster.client().observe()
    mine = tuple(job for job in queue.jobs if job.user == user_of_process())
    monkeypatch.setattr(SlurmClient, "configuration", lambda _: {**options, "privatedata": "jobs,usage"})
    monkeypatch.setattr(SlurmClient, "observe", lambda _: replace(queue, jobs=mine))
    terminal.type(*words)
    assert "note: the jobs of other users are hidden (PrivateData=jobs,usage), so only yours" in terminal.stderr
    assert terminal.json("--calibration")["open"] == 0
    monkeypatch.setattr(SlurmClient, "observe", lambda _: queue)
    terminal.type(*words)
    assert "hidden" not in terminal.stderr, "an operator sees all jobs"
    assert terminal.json("--calibration")["open"] == 1


def test_a_shorter_limit_that_fits_before_the_reservation_is_recommended(terminal: Terminal) -> None:
    report = terminal.json("--compare", "-N", "1", "-t", "12:00:00", "serve.sh")
    first, requested = report["offers"][0], next(offer for offer in report["offers"] if offer["limit"] == 12 * HOUR_S)
    assert (first["limit"], first["wait"]["mean"]) == (6 * HOUR_S, 0)
    assert first["sooner"] == requested["wait"]["mean"] > HOUR_S
    assert report["advice"].startswith("6 h instead of 12 h: starts ")
    assert first["node_hours"] == 6
    means = [offer["wait"]["mean"] for offer in report["offers"][1:]]
    assert means == sorted(means)
    table = terminal.type("--compare", "-N", "1", "-t", "12:00:00", "serve.sh")
    assert "main *" in table
    assert report["advice"] in table


def test_what_was_requested_is_marked_though_others_start_with_it(terminal: Terminal) -> None:
    table = terminal.type("--compare", "--nodes", "1,2", "--time", "12h,13h", "-p", "main")
    (marked,) = [line.split() for line in table.splitlines() if " * " in line]
    assert marked[2:4] == ["1", "12:00:00"]
    assert table.splitlines()[1].split()[1:3] == ["2", "13:00:00"]
    assert "no alternative that was tried is expected to start sooner" in table


def test_the_request_of_the_script_is_marked_though_it_is_in_no_list(terminal: Terminal) -> None:
    table = terminal.type("--compare", "--nodes", "1,3", "--time", "1h,2h,240", "serve.sh")
    (marked,) = [line.split() for line in table.splitlines() if " * " in line]
    assert marked[2:4] == ["2", "04:00:00"]
    assert len(table.splitlines()) == 1 + 6 + 3 + 1 + 1, "header, lists in main and in small, the script, advice"


@pytest.mark.parametrize("declared", ["-N 9", "--time=9-0", "--time=often"])
def test_a_request_of_the_script_that_is_not_possible_is_not_compared(terminal: Terminal, declared: str) -> None:
    terminal.script.write_text(f"#!/bin/bash\n#SBATCH {declared}\n")
    table = terminal.type("--compare", "--nodes", "1,3", "--time", "1h,2h", "serve.sh")
    (marked,) = [line.split() for line in table.splitlines() if " * " in line]
    assert marked[2:4] == ["1", "01:00:00"]


def test_lists_of_nodes_limits_and_partitions_are_compared(terminal: Terminal) -> None:
    report = terminal.json("--compare", "--nodes", "1,2", "--time", "4h,7h", "-p", "main,small", "serve.sh")
    offered = {(offer["nodes"], offer["limit"], offer["partition"]) for offer in report["offers"]}
    hours = (4 * HOUR_S, 7 * HOUR_S)
    fit_in_small = {(1, limit_s, "small") for limit_s in hours}
    assert offered == {(nodes, limit_s, "main") for nodes in (1, 2) for limit_s in hours} | fit_in_small
    assert report["offers"][0]["wait"]["mean"] == 0
    assert report["offers"][0]["limit"] == 7 * HOUR_S, "of those that start at once the one that offers most"


@pytest.mark.parametrize("terminal", [ENDLESS], indirect=True)
def test_a_job_without_a_limit_has_no_end_and_no_node_hours(terminal: Terminal) -> None:
    words = ("-N", "1", "-t", "0")
    offers = {offer["limit"]: offer for offer in terminal.json("--compare", *words)["offers"]}
    assert offers.keys() == {"UNLIMITED", 7 * DAY_S, 2 * DAY_S, DAY_S}
    assert (offers["UNLIMITED"]["finish"], offers["UNLIMITED"]["node_hours"]) == (None, None)
    assert offers[DAY_S]["node_hours"] == 24
    (marked,) = [line.split() for line in terminal.type("--compare", *words).splitlines() if " * " in line]
    assert marked[3] == "UNLIMITED"
    assert marked[-2:] == ["-", "-"]
    assert terminal.json(*words)["limit"] == "UNLIMITED"
    assert terminal.json("--job", str(terminal.submit(time="0")))["limit"] == "UNLIMITED"


def test_what_fits_nowhere_is_left_out_with_a_word(terminal: Terminal) -> None:
    report = terminal.json("--compare", "--nodes", "1,99", "--time", "4h,3d,0", "serve.sh")
    assert {offer["nodes"] for offer in report["offers"]} == {1, 2}, "two as in the script"
    assert {offer["limit"] for offer in report["offers"]} == {4 * HOUR_S}
    assert terminal.stderr.splitlines() == [
        f"mirage: --{value} is left out: the cluster accepts no such job" for value in ("nodes=99", "time=3d", "time=0")
    ]
    terminal.type("--compare", "-N", "2", "-t", "1h", "--partition", "main,small")
    assert "mirage: --partition=small is left out" in terminal.stderr


def test_partitions_are_tried_where_none_is_named(terminal: Terminal) -> None:
    report = terminal.json("--compare", "-N", "1", "-t", "8:00:00")
    assert {offer["partition"] for offer in report["offers"]} == {"main", "small"}
    sooner = {offer["limit"]: offer["sooner"] for offer in report["offers"] if offer["partition"] == "small"}
    assert sooner[8 * HOUR_S] > HOUR_S, "nobody waits for the small one"


def test_promises_are_stored_and_their_outcomes_filled_in(terminal: Terminal) -> None:
    terminal.type("serve.sh")
    number = terminal.submit()
    promised = terminal.json("--job", str(number))
    database = terminal.folder / "home" / "promises.db"
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert json.loads(terminal.type("--calibration", "--json"))["open"] == 2
    terminal.served.slurm.sleep(DAY_S)
    found = json.loads(terminal.type("--calibration", "--json"))
    assert found["open"] == 0
    waited_s = terminal.served.slurm.own[number].start_s - terminal.served.slurm.own[number].submit_s
    group = found["groups"][0]
    assert (group["group"], group["kept"]) == ("all", 2), "the script, which became the job, and the job"
    assert group["error_s"] == abs(waited_s - promised["wait"]["median"])
    assert (group["slurm_kept"], group["slurm_error_s"]) == (1, 15 * HOUR_S - waited_s), "of the script alone"
    low, high = promised["wait"]["95%"]
    assert group["inside"][2] == (low <= waited_s <= high)
    table = terminal.type("--calibration")
    assert [line.split()[:2] for line in table.splitlines()][-2:] == [["all", "2"], ["main", "2-7"]]


def late_promises(terminal: Terminal, words: tuple[str, ...], count: int) -> None:
    """Stores copies of a request's promise, settled: each job started long after all futures."""
    requested, promises = terminal.json(*words), Promises(terminal.folder / "home" / "promises.db")
    here = cluster_of(cluster.client().configuration())
    now_s = int(terminal.served.slurm.clock())
    ((_, promise),) = promises.of(here, OPEN)
    wait_s = max(promise.waits_s) + 10 * HOUR_S
    for k in range(count):
        promises.add(replace(promise, made_s=now_s - DAY_S, job=1000 + k, submit_s=k, state=SETTLED, wait_s=wait_s))
    assert requested["calibration"] == {"kept": 0, "corrected_by": 0}


def test_ranges_are_corrected_by_what_became_of_earlier_promises(terminal: Terminal) -> None:
    words = ("serve.sh",)
    raw = terminal.json(*words)["wait"]
    late_promises(terminal, words, 40)
    report = terminal.json(*words)
    assert report["calibration"] == {"kept": 40, "corrected_by": 40}
    assert report["wait"]["median"] == raw["median"]
    assert report["wait"]["80%"][1] > raw["80%"][1] + 5 * HOUR_S
    terminal.type(*words)
    assert "ranges corrected by 40 promises recorded on this cluster" in terminal.stderr


def test_offers_are_reported_with_corrected_ranges(terminal: Terminal) -> None:
    words = ("-N", "2", "-t", "4:00:00", "serve.sh")
    late_promises(terminal, words, 40)
    alone = terminal.json(*words)
    (offer, *_) = [one for one in terminal.json("--compare", *words)["offers"] if one["limit"] == 4 * HOUR_S]
    assert (offer["wait"], offer["corrected_by"]) == (alone["wait"], 40)
    table = terminal.type("--compare", *words)
    (marked,) = [line for line in table.splitlines() if " * " in line]
    assert wait_text(alone["wait"]["80%"][1]) in marked
    assert "ranges corrected by 40 promises" in terminal.stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["absent.sh"], 1, "cannot read the script absent.sh: No such file"),
        (["--job", "4711"], 1, "the queue shows no job 4711"),
        (["--job", "13"], 1, "job 13 is running, since "),
        (["-N", "5", "serve.sh"], 1, "specification invalid; the job requests 5 nodes, and its partition has 4: "),
        (["-p", "nowhere", "serve.sh"], 1, "unknown partition 'nowhere'"),
        (["-t", "3-0", "serve.sh"], 1, "a limit of 3-00:00:00 is too long: main takes 2-00:00:00 at most"),
        (["--compare", "-p", "main,smal", "serve.sh"], 1, "unknown partition 'smal'. Did you mean 'small'?"),
        (["--compare", "--nodes", "1,many", "serve.sh"], 1, "'many' is no number of nodes"),
        (["--job", "13", "--mine"], 2, "exclude each other"),
        ([], 2, "name the job:"),
        (["--nodes", "1,2", "serve.sh"], 1, "--nodes=1,2: to compare several values, add --compare"),
        (["--time", "1h,2h", "serve.sh"], 1, "--time=1h,2h: to compare several values, add --compare"),
        (["-p", "nosuch", "serve.sh", "--compare"], 1, "place it before serve.sh to give it to"),
        (["--frobnicate", "serve.sh"], 1, "unrecognized option '--frobnicate'"),
    ],
)
def test_errors_report_what_is_wrong(terminal: Terminal, words: list[str], status: int, message: str) -> None:
    assert terminal.type(*words, status=status) == ""
    assert message in terminal.stderr


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("often", "SBATCH_TIMELIMIT: 'often' is no duration"),
        ("2h", "sbatch knows no units in SBATCH_TIMELIMIT=2h; write SBATCH_TIMELIMIT=02:00:00"),
    ],
)
def test_a_limit_of_the_environment_is_named_by_its_variable(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", value)
    terminal.type("serve.sh", status=1)
    assert message in terminal.stderr


def test_a_heterogeneous_job_is_refused(terminal: Terminal) -> None:
    terminal.script.write_text("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\ntrue\n")
    terminal.type("serve.sh", status=1)
    assert "a heterogeneous job starts when all its components can" in terminal.stderr


@pytest.mark.parametrize("words", [["serve.sh"], ["--mine"], ["--calibration"]])
def test_without_a_controller_it_reports_what_to_do(terminal: Terminal, words: list[str]) -> None:
    terminal.served.close()
    terminal.type(*words, status=1)
    advice, _, slurms = terminal.stderr.partition("try again later: ")
    assert "no prediction without the queue, and the controller did not report it; if it is down," in advice
    assert "Unable to contact slurm controller" in slurms


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "soon", "serve.sh"], "--time: 'soon' is no duration"),
        (["--compare", "--time", "4h,soon", "serve.sh"], "--time: 'soon' is no duration"),
        (["--compare", "--nodes", "1,many", "serve.sh"], "'many' is no number of nodes; write --nodes=1,2,4"),
        (["-N", "0", "serve.sh"], "--nodes=0: a job needs at least one node"),
        (["--compare", "--nodes", "0", "serve.sh"], "--nodes=0: a job needs at least one node"),
    ],
)
def test_options_are_checked_before_slurm_is_queried(terminal: Terminal, words: list[str], message: str) -> None:
    terminal.served.close()
    terminal.type(*words, status=1)
    assert f"error: {message}" in terminal.stderr


@pytest.mark.parametrize(
    ("state", "since"), [(JobState.RUNNING, "1970-01-01T00:01:40Z"), (JobState.CANCELLED, "1970-01-01T00:03:20Z")]
)
def test_a_job_that_has_ended_is_reported_with_its_end(state: JobState, since: str) -> None:
    now: Any = SimpleNamespace(queue=SimpleNamespace(jobs=[QueuedJob(7, state, start_s=100, end_s=200)]))
    with pytest.raises(ConfigurationError, match=f"job 7 is {state.name.lower()}, since {since}: it is not pending"):
        pending_job(now, 7)


def test_stored_promises_are_shown_without_a_controller(terminal: Terminal) -> None:
    late_promises(terminal, ("serve.sh",), 3)
    terminal.served.close()
    found = json.loads(terminal.type("--calibration", "--json"))
    assert (found["open"], found["groups"][0]["kept"]) == (1, 3)
    assert terminal.type("--calibration").split()
    assert "without starts since the last command: no prediction without the queue" in terminal.stderr


def test_without_a_controller_sbatch_is_not_run(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a dead controller each command waits for its time-out, and sbatch twice."""
    ran: list[object] = []
    monkeypatch.setattr(SlurmClient, "test", lambda self, submission: ran.append(submission))
    terminal.served.close()
    terminal.type("serve.sh", status=1)
    assert ran == []


def test_without_a_node_it_reports_what_to_do(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SlurmClient.machine
    monkeypatch.setattr(SlurmClient, "machine", lambda self: replace(machine(self), nodes=()))
    terminal.type("serve.sh", status=1)
    assert "if it is down, try again later: sinfo reports no node" in terminal.stderr


def test_without_a_node_that_is_up_nothing_is_predicted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SlurmClient.machine
    drained = [replace(node, state="drained", usable=False) for node in machine(cluster.client()).nodes]
    monkeypatch.setattr(SlurmClient, "machine", lambda self: replace(machine(self), nodes=tuple(drained)))
    terminal.type("--job", str(terminal.submit()), status=1)
    assert "no prediction: no node is up; drained, down or reserved: 4 nodes" in terminal.stderr


def test_a_partition_that_is_down_starts_no_job(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SlurmClient.machine

    def small_down(self: SlurmClient) -> Machine:
        main, small = machine(self).partitions
        return replace(machine(self), partitions=(main, replace(small, down=True)))

    monkeypatch.setattr(SlurmClient, "machine", small_down)
    terminal.type("-p", "small", "-N", "1", "-t", "1h", status=1)
    assert "no start can be predicted: the partition small is down; request another one" in terminal.stderr
    either = terminal.json("-p", "small,main", "-N", "1", "-t", "4h")
    assert either["wait"] == terminal.json("-p", "main", "-N", "1", "-t", "4h")["wait"]
    report = terminal.json("--compare", "-N", "1", "-t", "1h", "-p", "main,small")
    assert {offer["partition"] for offer in report["offers"]} == {"main"}
    assert terminal.stderr == "mirage: --partition=small is left out: the partition is down\n"


def test_promises_that_cannot_be_written_do_not_stop_a_prediction(terminal: Terminal) -> None:
    (terminal.folder / "home").mkdir(mode=0o700)
    (terminal.folder / "home" / "promises.db").mkdir()
    assert json.loads(terminal.type("--json", "serve.sh"))["wait"]
    assert "this prediction is not stored" in terminal.stderr
