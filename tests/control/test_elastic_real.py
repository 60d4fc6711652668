"""Elastic jobs on a real slurmctld: a new size by a requeue, and nothing left held."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control.adviser import Adviser
from mirage.control.allow_list import PLAN_FORMAT
from mirage.control.executor_process import read_plan, write_plan
from mirage.control.job_sizes import job_sizes
from mirage.control.plan_executor import PlanExecutor
from mirage.control.pools_file import Pools
from mirage.control.restore import restore
from mirage.control.verbs import Verb
from mirage.errors import SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_site import (
    Site,
    kernels_are_compiled,  # noqa: F401  a fixture for every test here
)
from tests.support.elastic_job import RESTORE_S, SAVE_S, SCRIPT, Event, events
from tests.support.forked_processes import mirage, start
from tests.support.second_user import OTHER, SecondUser, opened
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.toy_profiles import write_profiles
from tests.support.waiting import SLOWNESS, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

RANGE = "mirage-control gpus=2-6"


def pools_of(site: Site) -> Pools:
    pools = replace(site.pools(), most_gpus=6, grace_s=60, resizes_per_job_hour=9, owner_users=("root",))
    return replace(pools, progress_file=f"{site.folder}/{{job}}.json")


def submitted(site: Site, *words: str, comment: str = RANGE) -> int:
    """An elastic job; its files have its id."""
    argv = (
        "sbatch",
        "--parsable",
        "-p",
        "train",
        "-t",
        "120",
        "-o",
        "/dev/null",
        "--mem=10",
        f"--comment={comment}",
        *words,
    )
    return int(site.run(*argv, "--wrap", f"exec bash {site.folder}/job.sh {site.folder}/$SLURM_JOB_ID"))


def as_operator(site: Site) -> SlurmClient:
    """Slurm with the rights of a second user, an operator."""
    opened(site.cluster)
    site.run("sacctmgr", "-i", "add", "account", "operators")
    site.run("sacctmgr", "-i", "add", "user", OTHER, "account=operators")
    site.run("sacctmgr", "-i", "modify", "user", OTHER, "set", "AdminLevel=Operator")
    return SlurmClient(SecondUser(site.cluster), user=OTHER)


def acting(site: Site) -> tuple[PlanExecutor, list[str]]:
    """An executor with the rights of an operator, and its outcomes."""
    executor = PlanExecutor(as_operator(site), pools_of(site), site.folder / "s", time.time)
    outcomes: list[str] = []
    executor.on_outcome = lambda outcome: outcomes.append(f"{outcome['what']} {outcome['outcome']}")
    return executor, outcomes


def run(executor: PlanExecutor, site: Site, job: int, name: str, gpus: int) -> int:
    """Carry out a plan of one verb; returns the number of refusals."""
    row = {"name": name, "job": job, "submit_s": site.job(job).submit_s, "gpus": gpus}
    return executor.run_plan({"format": PLAN_FORMAT, "number": 1, "time_s": int(time.time()), "verbs": [row]})


def poll(adviser: Adviser, executor: PlanExecutor) -> None:
    """Carry out the plan of now."""
    advice = adviser.advise(time.time())
    assert not advice.problem
    folder = executor.journal.parent
    write_plan(folder, 1, advice.time_s, [verb for step in advice.steps if not step.refused for verb in step.verbs])
    executor.run_plan(read_plan(folder)[1])


def ticks(executor: PlanExecutor, done: Callable[[], object], what: Callable[[], str], usual_s: float = 20) -> None:
    """Tick as the process of an executor does."""

    def tick() -> bool:
        executor.finish_evictions()
        return bool(done())

    until(tick, usual_s, what, pause_s=0.1)


def size(site: Site, job: int) -> int:
    """The GPUs that a job requests."""
    return int(re.findall(r"TresPerJob=gres:gpu:(\d+)", site.run("scontrol", "show", "job", str(job)))[0])


def held(site: Site) -> list[str]:
    """Jobs that are held."""
    return [line for line in site.run("squeue", "-h", "-o", "%i %r").splitlines() if "Held" in line]


def beyond_s(log: list[Event]) -> float:
    """Seconds from the last signal to the next restored job, beyond save and restore."""
    signal = max(k for k, event in enumerate(log) if event.what == "signal")
    return next(e for e in log[signal:] if e.what == "restored").time_s - log[signal].time_s - SAVE_S - RESTORE_S


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a second user needs root")
def test_an_operator_resizes_another_users_job_and_ends_its_hold_down(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path, accounting=True, enforce="")
    site.shell.script("job.sh", SCRIPT)
    executor, outcomes = acting(site)
    slurm_log = site.cluster.spec.log / "slurmctld.log"
    at = slurm_log.stat().st_size
    job, bystander = submitted(site, "--gpus=2"), submitted(site, "--gpus=1", comment="gpus=1-4")
    log = tmp_path / f"{job}.log"
    until(lambda: "restored" in str(events(log)), 20, lambda: site.run("squeue"))
    assert run(executor, site, bystander, "resize", 4) == 1, "it has not opted in"
    times = []
    for number, (gpus, nodes) in enumerate(((6, 2), (3, 1), (2, 1)), 2):
        assert run(executor, site, job, "resize", gpus) == 0, outcomes
        restored = lambda n=number: sum(e.what == "restored" for e in events(log)) == n  # noqa: E731
        ticks(executor, restored, lambda: f"{site.run('squeue')}\n{outcomes}\n{events(log)}")
        assert size(site, job) == gpus
        saved, last = [e for e in events(log) if e.what == "saved"][-1], events(log)[-1]
        assert (last.step, last.nodes) == (saved.step, nodes), "nothing is lost"
        times.append(beyond_s(events(log)))
    print(f"beyond save and restore: {', '.join(f'{t:.2f} s' for t in times)}")
    assert min(times) < 5, f"the cluster holds requeued jobs down for 5 s: {times}"

    ends = submitted(site, "--gpus=2")
    until(lambda: "restored" in str(events(tmp_path / f"{ends}.log")), 20, lambda: site.run("squeue"))
    executor.pools = replace(executor.pools, grace_s=2)
    assert run(executor, site, ends, "resize", 4) == 0
    site.run("scancel", str(ends))
    ticks(executor, lambda: "resize left by itself" in outcomes, lambda: str(outcomes))

    waits = submitted(site, "--gpus=6", "--hold")
    assert run(executor, site, waits, "size", 2) == 0
    assert size(site, waits) == 2
    restore(executor)
    executor.close()
    assert size(site, waits) == 6
    assert not [line for line in held(site) if not line.startswith(f"{waits} ")]
    received = slurm_log.read_text()[at:]
    assert "REQUEST_JOB_REQUEUE" in received
    assert "Security violation" not in received


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a second user needs root")
def test_a_job_changes_its_size_by_workers_within_two_seconds_and_leaves_no_orphan(
    private_cluster: Any, tmp_path: Path
) -> None:
    site = Site(private_cluster, tmp_path, accounting=True, enforce="")
    executor, outcomes = acting(site)
    slurm_log = site.cluster.spec.log / "slurmctld.log"
    at = slurm_log.stat().st_size
    main = site.submit("--gpus=2", "-t", "60")
    site.until_running(main)
    worker = f"mirage-control worker-of={main}"
    workers = [site.submit("--gpus=2", "-t", "60", "--hold", "--requeue", comment=worker) for _ in range(2)]
    until(lambda: len(site.run("squeue", "-h").splitlines()) == 3, 10, lambda: site.run("squeue"))

    def running() -> int:
        return len(site.run("squeue", "-h", "-t", "R,CG").splitlines())

    executor.allowed.pools = replace(executor.pools, resizes_per_job_hour=99, resizes_per_hour=99)
    times: dict[int, list[float]] = {2: [], 4: [], 6: []}
    for gpus in (6, 2, 4, 6, 4, 2, 6):
        begun_s = time.monotonic()
        assert run(executor, site, main, "resize", gpus) == 0, outcomes
        until(lambda gpus=gpus: running() == gpus // 2, 5, lambda: f"{site.run('squeue')}\n{outcomes}", pause_s=0.02)
        times[gpus].append(time.monotonic() - begun_s)
        time.sleep(1.5)
        assert running() == gpus // 2
    print(f"by workers: {max(map(max, times.values())):.2f} s at most; {times}")
    assert site.job(main).state is JobState.RUNNING
    assert restarts_of(site, main) == 0, "the main job has gone on"

    adviser = Adviser(executor.slurm, replace(pools_of(site), scheduler="aryl"))
    assert "end" not in [step.kind for step in adviser.advise(time.time()).steps]
    site.run("scancel", "--signal=KILL", "--full", str(main))
    until(lambda: running() == 2, 10, lambda: site.run("squeue"))
    advice = adviser.advise(time.time())
    ends = [verb for step in advice.steps for verb in step.verbs if verb.name == "end"]
    assert sorted(verb.job for verb in ends) == workers
    executor.begin()
    snapshot = take_gpu_snapshot(executor.slurm, int(time.time()))
    executor.observe(snapshot)
    write_plan(tmp_path, 1, snapshot.time_s, ends)
    assert executor.run_plan(read_plan(tmp_path)[1]) == 0, outcomes
    until(lambda: not site.run("squeue", "-h"), 10, lambda: site.run("squeue"))
    assert restore(executor) == []
    executor.close()
    assert "Security violation" not in slurm_log.read_text()[at:]


MAIN_JOB = """#!/bin/bash
#SBATCH --gpus=2 -t 60 --mem=10 --requeue --output=/dev/null
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
    for worker in 1 2; do
        sbatch --hold --requeue --gpus=2 -t 60 --mem=10 -p train -J worker \\
            --comment="mirage-control worker-of=$SLURM_JOB_ID" job.sh w
    done
fi
trap exit USR2
while true; do sleep 0.2; done
"""


def test_a_controller_lets_jobs_grow_by_their_workers_and_ends_workers_with_them(
    private_cluster: Any, tmp_path: Path
) -> None:
    site = Site(private_cluster, tmp_path)
    site.shell.script("main.sh", MAIN_JOB)
    more = 'poll = "6s"\n[rates]\nrequests_per_minute = 60\nresizes_per_job_hour = 60\nresizes_per_hour = 600\n[owner]'
    config = (tmp_path / "pools.toml").read_text().replace("[owner]", more).replace("[jobs]", "[jobs]\nmost_gpus = 6")
    (tmp_path / "pools.toml").write_text(config)
    before = site.reservations()
    act = ("control", "run", "--config", "pools.toml", "--act", "--state", "state", "--record", "views")

    def controller(number: int) -> Any:
        words, out = (*act[:-1], f"views{number}"), tmp_path / f"out{number}"
        process = start(mirage, *words, env=site.shell.environment, cwd=tmp_path, out=out, err=out)
        AGENTS.append(process)
        return process

    def names(states: str) -> list[str]:
        return sorted(site.run("squeue", "-h", "-t", states, "-o", "%j").split())

    def grown() -> int:
        words = ("sbatch", "--parsable", "-p", "train", "-J", "main", "--comment=mirage-control", "-D", str(tmp_path))
        job = int(site.run(*words, str(tmp_path / "main.sh")))
        until(lambda: names("R") == ["main", "worker", "worker"], 30, lambda: site.run("squeue"))
        return job

    process = controller(1)
    ends_s = []
    for end in (("scancel",), ("scancel", "--signal=KILL", "--full"), ("scancel", "--signal=USR2", "--batch")):
        job = grown()
        assert site.job(job).state is JobState.RUNNING
        assert restarts_of(site, job) == 0
        begun_s = time.monotonic()
        site.run(*end, str(job))
        until(lambda: not site.run("squeue", "-h"), 20, lambda: site.run("squeue"))
        ends_s.append(time.monotonic() - begun_s)
    print(f"workers after the end of their main job, with a poll of 6 s: {', '.join(f'{s:.1f} s' for s in ends_s)}")

    job = grown()
    site.run("scontrol", "requeue", str(job))
    until(lambda: restarts_of(site, job) == 1 and site.job(job).state is JobState.RUNNING, 30, lambda: "")
    until(lambda: names("R") == ["main", "worker", "worker"], 30, lambda: site.run("squeue"))
    process.kill()  # its executor ends within a second
    site.run("scancel", str(job))
    process.wait()
    until(lambda: names("R") == ["worker", "worker"], 10, lambda: site.run("squeue"))
    controller(2)
    until(lambda: not site.run("squeue", "-h"), 20, lambda: site.run("squeue"))

    job = grown()
    site.shell.mirage("control", "off", "--config", "pools.toml", "--state", "state")
    assert names("R") == ["main", "worker", "worker"], "off ends no job"
    assert site.reservations() == before
    for number in (1, 2):
        site.shell.mirage("control", "replay", f"views{number}")


def restarts_of(site: Site, job: int) -> int:
    """How often a job was requeued."""
    return int(re.findall(r"Restarts=(\d+)", site.run("scontrol", "show", "job", str(job)))[0])


def test_a_controller_dies_between_the_requeue_and_the_new_size_and_nothing_is_left_held(
    private_cluster: Any, tmp_path: Path
) -> None:
    site = Site(private_cluster, tmp_path)
    site.shell.script("job.sh", SCRIPT)
    job = submitted(site, "--gpus=2")
    log = tmp_path / f"{job}.log"
    until(lambda: "restored" in str(events(log)), 20, lambda: site.run("squeue"))

    class Killed(BaseException):
        pass

    def dying(executor: PlanExecutor, last: str) -> None:
        """Let an executor die after a command: what it wrote and sent is all that is left."""
        send = executor.send

        def send_and_die(verb: Verb, undo: Verb | None = None) -> None:
            send(verb, undo)
            if verb.name == last:
                raise Killed

        executor.send = send_and_die  # type: ignore[method-assign]

    for number, (last, gpus) in enumerate((("requeue", 2), ("size", 4)), 2):
        executor = PlanExecutor(site.shell.slurm, pools_of(site), tmp_path / "state", time.time)
        dying(executor, last)
        run(executor, site, job, "resize", 4)
        with pytest.raises(Killed):
            ticks(executor, lambda: False, lambda: "it did not die")
        executor.close()
        restored = lambda n=number: sum(e.what == "restored" for e in events(log)) == n  # noqa: E731
        until(restored, 20, lambda: site.run("squeue"))
        assert size(site, job) == gpus
        assert held(site) == []
    more = f'[rates]\nresizes_per_job_hour = 9\n[jobs]\nmost_gpus = 6\nprogress = "{tmp_path}/{{job}}.json"'
    (tmp_path / "pools.toml").write_text((tmp_path / "pools.toml").read_text().replace("[jobs]", more))
    act = ("control", "run", "--config", "pools.toml", "--act", "--state", "state", "--record", "views")
    process = start(mirage, *act, env=site.shell.environment, cwd=tmp_path, out=tmp_path / "out", err=tmp_path / "err")
    AGENTS.append(process)
    until(lambda: events(log)[-1].what == "restored" and size(site, job) == 6, 30, (tmp_path / "err").read_text)
    process.kill()
    site.shell.mirage("control", "replay", "views")
    waits = site.submit("--gpus-per-node=3", "-t", "5")
    process = start(
        mirage, *act[:-1], "more", env=site.shell.environment, cwd=tmp_path, out=tmp_path / "out", err=tmp_path / "err"
    )
    AGENTS.append(process)
    until(lambda: site.job(waits).state is JobState.RUNNING, 30, (tmp_path / "err").read_text)
    until(lambda: site.job(job).state is JobState.RUNNING, 30, (tmp_path / "err").read_text)
    assert 2 <= size(site, job) <= 5, "it has made room"
    site.shell.mirage("control", "off", "--config", "pools.toml", "--state", "state")
    assert held(site) == []
    assert "mirage-loan" not in str(site.reservations())
    assert process.wait(SLOWNESS * 10) == 1
    site.shell.mirage("control", "replay", "more")


def test_gpus_are_counted_as_slurm_gives_them_and_a_size_that_slurm_refuses_is_not_planned(
    private_cluster: Any, tmp_path: Path
) -> None:
    site = Site(private_cluster, tmp_path)
    snapshot = lambda: take_gpu_snapshot(site.shell.slurm, int(time.time()))  # noqa: E731
    for gpus, words, elastic in (
        (4, ("--gpus=4", "--gpus-per-task=2"), False),
        (6, ("--gpus-per-task=2", "-n3"), False),
        (4, ("--gpus=4", "--gpus-per-node=2"), False),
        (6, ("--gpus=6", "--ntasks-per-gpu=1"), True),
    ):
        job = site.submit(*words, "--hold", comment=RANGE)
        waits = snapshot().jobs[-1]
        if "--gpus-per-task=2" in words:
            with pytest.raises(SlurmUnreachable, match="Invalid generic resource"):
                site.run("scontrol", "update", f"JobId={job}", f"TresPerJob=gres:gpu:{gpus + 2}")
        site.run("scontrol", "release", str(job))
        site.until_running(job)
        runs = snapshot().jobs[-1]
        assert (waits.job.id, runs.job.id) == (job, job)
        assert sum(node.used for node in snapshot().nodes) == runs.job.gpus == waits.job.gpus == gpus
        assert job_sizes(runs, pools_of(site)).elastic == job_sizes(waits, pools_of(site)).elastic == elastic
        site.run("scancel", "--signal=KILL", "--full", str(job))
        until(lambda: not site.run("squeue", "-h"), 20, lambda: site.run("squeue"))


@pytest.mark.parametrize("words", [(), ("-w", "n1")], ids=["in the view", "not in the view"])
def test_a_job_that_cannot_start_with_its_new_size_starts_with_its_smallest_one(
    private_cluster: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The GPUs of n2 are free, but its memory is not."""
    site = Site(private_cluster, tmp_path)
    site.shell.script("job.sh", SCRIPT)
    pools = replace(pools_of(site), scheduler="aryl")
    adviser = Adviser(site.shell.slurm, pools)
    executor = PlanExecutor(site.shell.slurm, pools, tmp_path / "state", time.time)
    other = site.submit("-w", "n2", "--mem=0", comment="")
    job = submitted(site, "--gpus=4", *words)
    log = tmp_path / f"{job}.log"
    what = lambda: f"{site.run('squeue')}\n{executor.journal.read_text()}"  # noqa: E731
    for restored, gpus, nodes in ((1, 4, 1), (2, 2, 1), (3, 6, 2)):
        ticks(executor, lambda n=restored: sum(e.what == "restored" for e in events(log)) == n, what)
        assert (size(site, job), events(log)[-1].nodes) == (gpus, nodes)
        if gpus == 2:
            site.run("scancel", "--signal=KILL", "--full", str(other))
            until(lambda: len(site.run("squeue", "-h").splitlines()) == 1, 20, what)
        poll(adviser, executor)
        if gpus == 4:
            tried = lambda: size(site, job) == 6 and site.job(job).reason not in ("", "None", "BeginTime")  # noqa: E731
            ticks(executor, tried, what)
            poll(adviser, executor)
    executor.close()


def test_a_job_with_gpus_per_node_changes_its_size_on_one_node(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    site.shell.script("job.sh", SCRIPT)
    executor = PlanExecutor(site.shell.slurm, pools_of(site), tmp_path / "state", time.time)
    snapshot = lambda: {one.job.id: one for one in take_gpu_snapshot(site.shell.slurm, time.time()).jobs}  # noqa: E731
    for words in (("-N2", "--gpus-per-node=1"), ("-N1-2", "--gpus-per-node=2"), ("-n2", "-N1", "--gres=gpu:2")):
        several = submitted(site, *words, "--hold")
        assert "as one task on one node with GPUs per node" in job_sizes(snapshot()[several], pools_of(site)).rigid_why
        assert run(executor, site, several, "size", 4) == 1
        site.run("scancel", str(several))
    for words, sizes in ((("--gpus-per-node=2",), (4, 3)), (("--gres=gpu:3", "-N1"), (2,))):
        job = submitted(site, *words)
        log = tmp_path / f"{job}.log"
        until(lambda log=log: "restored" in str(events(log)), 20, lambda: site.run("squeue"))
        for number, gpus in enumerate(sizes, 2):
            assert run(executor, site, job, "resize", gpus) == 0
            restored = lambda n=number, log=log: sum(e.what == "restored" for e in events(log)) == n  # noqa: E731
            ticks(executor, restored, lambda: f"{site.run('squeue')}\n{executor.journal.read_text()}")
            saved, last = [e for e in events(log) if e.what == "saved"][-1], events(log)[-1]
            assert (last.step, last.nodes, last.gpus_on_node) == (saved.step, 1, gpus)
            assert (snapshot()[job].job.gpus, snapshot()[job].gpus_on_one_node) == (gpus, True)
        waits = submitted(site, *words, "--hold")
        assert run(executor, site, waits, "size", 5) == 0
        restore(executor)
        assert snapshot()[waits].job.gpus == int(words[0][-1]), "off restores it"
        assert snapshot()[job].job.gpus == sizes[-1]
        site.run("scancel", str(job), str(waits))
    executor.close()


def test_sia_starts_a_job_on_one_gpu_and_doubles_it(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    site.shell.script("job.sh", SCRIPT)
    more = f'[profiles]\nfolder = "{write_profiles(tmp_path / "profiles")}"\ngpu_type = "slow"\n[jobs]'
    (tmp_path / "pools.toml").write_text((tmp_path / "pools.toml").read_text().replace("[jobs]", more))
    pools = replace(pools_of(site), scheduler="sia", restart_s=1.0)
    (tmp_path / "views").mkdir()
    adviser = Adviser(site.shell.slurm, pools, tmp_path / "views")
    executor = PlanExecutor(site.shell.slurm, pools, tmp_path / "state", time.time)
    blocker = site.submit("--gpus-per-node=4", "-N2", "-t", "9")
    site.until_running(blocker)
    job = submitted(site, "--gpus=4", comment="mirage-control gpus=1-4 model=toy batch=40")
    log = tmp_path / f"{job}.log"

    poll(adviser, executor)
    assert size(site, job) == 1, "it waits with its smallest size"
    site.run("scancel", str(blocker))
    sizes = []
    for number in (1, 2, 3):
        restored = lambda n=number: sum(e.what == "restored" for e in events(log)) == n  # noqa: E731
        ticks(executor, restored, lambda: f"{site.run('squeue')}\n{executor.journal.read_text()}")
        sizes.append(size(site, job))
        poll(adviser, executor)
    assert sizes == [1, 2, 4]
    restore(executor)
    executor.close()
    site.shell.mirage("control", "replay", "views")
    assert held(site) == []
