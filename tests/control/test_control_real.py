"""Advice on a real slurmctld: it changes nothing, and its commands work."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control.adviser import Adviser
from mirage.control.allow_list import PLAN_FORMAT
from mirage.control.executor_folder import lock_holder
from mirage.control.executor_process import read_plan, write_plan
from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from mirage.control.verbs import FENCE, Verb
from mirage.errors import SlurmRefused
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import REQUESTS, take_gpu_snapshot
from mirage.slurm.text.reservations import RESERVATIONS_COMMAND, read_reservations
from tests.support import dying_executor
from tests.support.control_site import (
    POOLS,
    Site,
    kernels_are_compiled,  # noqa: F401  a fixture for every test here
)
from tests.support.forked_processes import Process, mirage, start
from tests.support.second_user import OTHER, SecondUser, opened
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import SLOWNESS, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PROMISE_S = 180
"""Promise of loans in a test that must observe one: longer than a busy machine needs for the steps before."""

CHANGES = ("REQUEST_CREATE_RESERVATION", "REQUEST_UPDATE_RESERVATION", "REQUEST_DELETE_RESERVATION",
           "REQUEST_UPDATE_JOB", "REQUEST_KILL_JOB", "REQUEST_CANCEL_JOB", "REQUEST_JOB_REQUEUE")  # fmt: skip


def test_the_commands_of_the_advice_lend_a_node_and_take_it_back(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    adviser = Adviser(site.shell.slurm, site.pools())
    wide, small = site.submit("--gpus-per-node=4", "-N2", "-t", "30"), site.submit("--gpus=3", "-t", "40")
    site.until_running(wide)
    steps = site.advise(adviser)
    lend = steps["lend n3"]
    for command in lend.commands(site.pools()):
        site.run(*command)
    begin = site.advise(adviser)[f"start {small}"]
    assert begin.commands(site.pools()) == (("scontrol", "update", f"JobId={small}", "ReservationName=mirage-loan-n3"),)
    site.run(*begin.commands(site.pools())[0])
    site.until_running(small)
    assert site.job(small).nodelist == "n3"

    service = site.submit(
        "--gpus-per-node=4", "-N2", "-t", "30", f"--reservation={FENCE}", partition="inference", comment=""
    )
    until(lambda: "Resources" in site.job(service).reason or site.job(service).priority > 0, 10, "the service waits")
    evict = site.advise(adviser)[f"preempt {small}"]
    warn, requeue, *release = evict.commands(site.pools())
    site.run(*warn)
    until(lambda: any(tmp_path.glob("*.saved")), 10, "the job has saved")
    site.run(*requeue)
    for command in release:
        site.run(*command)
    site.until_running(service)
    first_s = adviser.advise(time.time()).view.jobs[-1].submit_s  # type: ignore[union-attr]
    assert first_s < site.job(small).submit_s, "Slurm has a new submit time, the adviser the first one"
    assert site.job(small).state is JobState.PENDING
    for command in lend.undo_commands(site.pools()):
        site.run(*command)
    assert "mirage-loan" not in site.run("scontrol", "show", "reservation")


def test_the_adviser_changes_nothing_and_ends_with_an_account(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    for gpus in (1, 2, 3, 4, 4, 8):
        site.submit(f"--gpus={gpus}", "-t", str(20 - gpus))
    until(lambda: "RUNNING" in site.run("squeue", "-h", "-o", "%T"), 10, "a job runs")
    log, before = site.cluster.spec.log / "slurmctld.log", site.run("scontrol", "show", "reservation")
    at = log.stat().st_size
    checked = json.loads(site.shell.mirage("control", "check", "--config", "pools.toml", "--json"))
    assert {row["level"] for row in checked} == {"ok"}
    words = ("control", "run", "--config", "pools.toml", "--json", "--record", "views")
    process = start(
        mirage, *words, env=site.shell.environment, cwd=tmp_path, out=tmp_path / "out", err=tmp_path / "err"
    )
    AGENTS.append(process)
    until(lambda: any((tmp_path / "views").glob("*.json")), 20, lambda: (tmp_path / "err").read_text())
    until(lambda: (tmp_path / "out").read_text().count("\n") >= 1, 10, "the advice is printed")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SLOWNESS * 10) == 0
    *_, account = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert account["account"]["snapshots"] == 1
    site.shell.mirage("control", "replay", "views")
    received = log.read_text()[at:]
    assert CHANGES[0] in log.read_text()[:at], "the log shows changes"
    assert "REQUEST_JOB_INFO" in received, "the log shows requests"
    assert not [change for change in CHANGES if change in received]
    assert site.run("scontrol", "show", "reservation") == before
    at = log.stat().st_size
    take_gpu_snapshot(site.shell.slurm, time.time())
    assert len(re.findall(r"received opcode REQUEST_\w+_INFO", log.read_text()[at:])) == REQUESTS


def test_the_executor_lends_and_takes_back_under_the_rights_of_an_operator(
    private_cluster: Any, tmp_path: Path
) -> None:
    site = Site(private_cluster, tmp_path)
    log = site.cluster.spec.log / "slurmctld.log"
    pools = replace(site.pools(), grace_s=1)
    adviser, executor = (
        Adviser(site.shell.slurm, pools),
        PlanExecutor(site.shell.slurm, pools, tmp_path / "state", time.time),
    )
    before = site.reservations()
    at = log.stat().st_size
    executor.begin()

    def step() -> None:
        """A poll of a controller."""
        advice = adviser.advise(time.time())
        verbs = [verb for one in advice.steps if not one.refused for verb in one.verbs]
        write_plan(tmp_path, 1, advice.time_s, verbs)
        executor.run_plan(read_plan(tmp_path)[1])

    def until_done(done: Callable[[], bool], what: str) -> float:
        begun_s = time.monotonic()

        def poll() -> bool:
            step()
            executor.finish_evictions()
            return done()

        until(poll, 20, lambda: f"{what}\n{site.run('squeue')}\n{executor.journal.read_text()}", pause_s=0.5)
        return time.monotonic() - begun_s

    wide, small = site.submit("--gpus-per-node=4", "-N2", "-t", "30"), site.submit("--gpus=3", "-t", "40")
    site.until_running(wide)
    until_done(lambda: site.job(small).state is JobState.RUNNING, "the small job runs on a lent node")
    assert site.job(small).nodelist == "n3"
    words = ("--gpus-per-node=4", "-N2", "-t", "30", f"--reservation={FENCE}")
    service = site.submit(*words, partition="inference", comment="")
    until_done(lambda: site.job(service).state is JobState.RUNNING, "the service has its nodes")
    assert any(tmp_path.glob("*.saved")), "the job has saved"
    assert site.job(small).state is JobState.PENDING
    until_done(lambda: "mirage-loan" not in str(site.reservations()), "the loan is given back")
    assert restore(executor) == []
    executor.close()
    assert site.reservations() == before
    received = log.read_text()[at:]
    assert "REQUEST_JOB_REQUEUE" in received
    assert not re.findall("REQUEST_UPDATE_(?:NODE|PARTITION)|REQUEST_RECONFIGURE|REQUEST_SHUTDOWN", received)


def test_a_controller_dies_another_begins_and_off_leaves_nothing(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    (tmp_path / "pools.toml").write_text(POOLS.replace("[borrower]", f'promise = "{PROMISE_S}s"\n[borrower]'))
    site.until_running(site.submit("--gpus-per-node=4", "-N2", "-t", "30"))
    site.submit("--gpus=3", "-t", str(PROMISE_S // 60))  # too long to enter the loan
    before = site.reservations()
    words = ("control", "run", "--config", "pools.toml", "--act")

    def controller(state: str) -> Process:
        log = tmp_path / f"{state}.log"
        AGENTS.append(start(mirage, *words, "--state", state, env=site.shell.environment, cwd=tmp_path, out=log,
                            err=log))  # fmt: skip
        return AGENTS[-1]

    first = controller("one")
    until(lambda: "mirage-loan-n3" in str(site.reservations()), 15, lambda: (tmp_path / "one.log").read_text())
    for state, why in (("one", "another controller acts with"), ("two", "another controller acts on this cluster")):
        site.shell.mirage(*words, "--state", state, status=1)
        assert why in site.shell.stderr
    holder = int((tmp_path / "one" / "lock").read_text())
    first.kill()
    until(lambda: not Path(f"/proc/{holder}").exists() or lock_holder(tmp_path / "one") is None, 10, "both ended")
    (loan,) = [one for one in read_reservations(site.run(*RESERVATIONS_COMMAND))[0] if one.name == "mirage-loan-n3"]
    assert loan.end_s - loan.start_s == PROMISE_S, "Slurm itself ends it"
    second = controller("one")
    until(lambda: (tmp_path / "one.log").read_text().count("the executor acts") == 2, 10, "it begins again")
    begun_s = time.monotonic()
    printed = site.shell.mirage("control", "off", "--config", "pools.toml", "--state", "one")
    assert time.monotonic() - begun_s < 60
    assert printed.endswith("nothing of the controller is left in Slurm\n")
    assert second.wait(SLOWNESS * 10) == 1
    assert site.reservations() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a second user needs root")
def test_an_operator_may_send_all_verbs_and_others_may_not(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path, accounting=True, enforce="")
    opened(site.cluster)
    slurm = SlurmClient(SecondUser(site.cluster), user=OTHER)
    pools = replace(site.pools(), grace_s=0, owner_users=("root",))
    of_administrator = site.reservations()
    site.run("scontrol", "delete", f"ReservationName={FENCE}")
    site.run("sacctmgr", "-i", "add", "account", "operators")
    site.run("sacctmgr", "-i", "add", "user", OTHER, "account=operators")
    plain = PlanExecutor(slurm, pools, tmp_path / "plain", time.time)
    with pytest.raises(SlurmRefused, match="Error creating the reservation"):
        plain.begin()
    plain.close()
    site.run("sacctmgr", "-i", "modify", "user", OTHER, "set", "AdminLevel=Operator")
    executor = PlanExecutor(slurm, pools, tmp_path / "operator", time.time)

    def begins() -> bool:
        with contextlib.suppress(SlurmRefused):
            executor.begin()
        return "mirage-controller" in str(site.reservations())

    until(begins, 10, "the right has arrived")
    assert [line for line in site.reservations() if FENCE in line] == of_administrator
    log = site.cluster.spec.log / "slurmctld.log"
    at = log.stat().st_size
    outcomes: list[str] = []
    executor.on_outcome = lambda outcome: outcomes.append(f"{outcome['what']} {outcome['outcome']}")
    wide, small = site.submit("--gpus-per-node=4", "-N2", "-t", "30"), site.submit("--gpus=3", "-t", "40")
    low, high = site.submit("--gpus=4", "-t", "40"), site.submit("--gpus-per-node=4", "-N2", "-t", "40")
    site.until_running(wide)

    def run(name: str, number: int = 0, **operands: Any) -> None:
        row = {"name": name, **operands}
        row |= {"job": number, "submit_s": site.job(number).submit_s} if number else {}
        plan = {"format": PLAN_FORMAT, "number": 1, "time_s": int(time.time()), "verbs": [row]}
        assert executor.run_plan(plan) == 0, outcomes

    run("lend", node="n3", minutes=60)
    run("enter", small, node="n3")
    site.until_running(small)
    run("nice", high, nice=1)
    run("nice", low, nice=-1)
    assert site.job(low).priority < site.job(high).priority, "a larger job has a higher priority here"
    run("evict", small)
    until(lambda: site.job(small).state is JobState.PENDING, 10, lambda: site.run("squeue"))

    def released() -> bool:
        executor.finish_evictions()
        return "release done" in outcomes

    until(released, 10, lambda: site.run("squeue"))
    executor.send(Verb("renew"))
    run("return", node="n3")
    assert restore(executor) == []
    executor.close()
    assert site.reservations() == [], "the fence is the controller's own"
    assert site.job(low).nice == 0
    assert {line.split()[0] for line in outcomes} >= {
        "unfence",
        "lend",
        "enter",
        "nice",
        "signal",
        "requeue",
        "leave",
        "release",
    }
    assert not re.search("denied|Security violation", log.read_text()[at:])


def test_what_a_killed_controller_has_requeued_starts_without_slurms_delay(
    private_cluster: Any, tmp_path: Path
) -> None:
    """Slurm delays the start of a requeued job by two minutes here."""
    site = Site(private_cluster, tmp_path, cred_expire_s=120)
    (tmp_path / "pools.toml").write_text(f"{POOLS}[rates]\nevictions_per_job_hour = 60\n")
    config, state = str(tmp_path / "pools.toml"), str(tmp_path / "state")
    small = site.submit("--gpus=3", "-t", "40")
    site.until_running(small)

    def die_after(verb: str) -> None:
        words = (config, state, str(small), str(site.job(small).submit_s), verb)
        log = tmp_path / "dying.log"
        process = start(dying_executor.main, *words, env=site.shell.environment, cwd=tmp_path, out=log, err=log)
        assert process.wait(SLOWNESS * 10) == -signal.SIGKILL, log.read_text()

    def is_delayed() -> bool:
        job = site.job(small)
        return job.state is JobState.PENDING and job.eligible_s > time.time() + 60

    for by in ("the next controller", "off"):
        die_after("requeue")
        until(is_delayed, 10, lambda: site.run("squeue"))
        begun_s = time.monotonic()
        if by == "off":
            site.shell.mirage("control", "off", "--config", config, "--state", state)
        else:
            executor = PlanExecutor(site.shell.slurm, site.pools(), Path(state), time.time)
            executor.begin()
            executor.tick()
            executor.close()
        site.until_running(small)
        assert time.monotonic() - begun_s < SLOWNESS * 10
    restarted = site.job(small)
    die_after("release")
    site.until_running(small)
    assert site.job(small).start_s - restarted.start_s < 100, "a controller that lives releases it, too"


@pytest.mark.soak
def test_a_loan_ends_by_itself_and_longer_jobs_do_not_enter(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    executor = PlanExecutor(site.shell.slurm, replace(site.pools(), promise_s=60), tmp_path / "state", time.time)
    long = site.submit("--gpus=3", "-t", "30", "--hold")
    row = {"name": "lend", "node": "n3", "minutes": 1}
    enter = {"name": "enter", "job": long, "submit_s": site.job(long).submit_s, "node": "n3"}
    for verbs, refused in (([row], 0), ([enter], 1)):
        plan = {"format": PLAN_FORMAT, "number": 1, "time_s": int(time.time()), "verbs": verbs}
        assert executor.run_plan(plan) == refused
    executor.close()
    until(lambda: "mirage-loan" not in str(site.reservations()), 90, "the loan has ended by itself")


def test_commands_about_one_task_of_an_array_leave_the_others_alone(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    array = site.submit("--array=0-3%3", "--gpus=1", "-t", "30")
    executor = PlanExecutor(site.shell.slurm, replace(site.pools(), grace_s=1), tmp_path / "state", time.time)

    def tasks() -> list[tuple[str, ...]]:
        words = site.run("squeue", "--noheader", "--Format=ArrayTaskID:12,State:12,Nice:12").split()
        return sorted(zip(words[::3], words[1::3], words[2::3], strict=True))

    def run(name: str, **operands: Any) -> None:
        row = {"name": name, "job": array, "submit_s": site.job(array).submit_s, **operands}
        assert executor.run_plan({"format": PLAN_FORMAT, "time_s": int(time.time()), "verbs": [row]}) == 0

    def left() -> bool:
        executor.finish_evictions()
        return ("3", "PENDING", "40") in tasks()

    running = [(f"{k}", "RUNNING", "0") for k in range(3)]
    until(lambda: len(tasks()) == 4, 10, lambda: site.run("squeue"))
    run("nice", nice=40)
    assert tasks() == [*running, ("3", "PENDING", "40")], "the record of the waiting task has the id of the array"
    site.run("scontrol", "update", f"JobId={array}", "ArrayTaskThrottle=4")
    until(lambda: ("3", "RUNNING", "40") in tasks(), 10, lambda: site.run("squeue"))
    run("evict")
    until(left, 10, lambda: site.run("squeue"))
    assert tasks()[:3] == running
    site.run("scancel", str(array))
    component = ("-N1", "--gpus=1", "-t", "30", "--mem=10", "--comment=mirage-control")
    site.run("sbatch", "-p", "train", *component, ":", "-p", "train", *component, str(tmp_path / "job.sh"), "x")
    het = lambda: [one for one in executor.jobs() if one.heterogeneous]  # noqa: E731
    until(lambda: [one.job.state for one in het()] == [JobState.RUNNING] * 2, 10, lambda: site.run("squeue"))
    for one in het():
        row = {"name": "evict", "job": one.job.id, "submit_s": one.job.submit_s, "warns": False}
        assert executor.run_plan({"format": PLAN_FORMAT, "time_s": int(time.time()), "verbs": [row]}) == 1
    executor.close()
