"""Chains without an agent on a real slurmctld: every link once, none lost."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from mirage.agentless.shell_features import slurm_wait_s
from mirage.policy.view import ChainView, Ended
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission
from mirage.slurm.runner import SystemRunner
from mirage.slurm.slurm_view import Names, view_of
from mirage.slurm.text.start_estimate import read_estimate
from tests.support.agentless_chain import AgentlessChain
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "4"))


@pytest.fixture(scope="module")
def cluster(private_cluster) -> object:
    return private_cluster(nodes=3, min_job_age_s=36_000)


@pytest.fixture
def folder(cluster, tmp_path_factory) -> Path:
    """A folder of its own in the cluster's, which jobs can read."""
    number = len(list(cluster.spec.directory.glob("chain-*")))
    made = cluster.spec.directory / f"chain-{number:03d}"
    made.mkdir()
    return Path(made)


def wait_for(chain: AgentlessChain, condition, usual_s: float, what: str) -> None:
    def state() -> str:
        return f"{what}\n{chain.log()}\n{chain.alive()}\n" + "\n".join(
            path.read_text()[-500:] for path in chain.folder.glob("*.out")
        )

    until(condition, usual_s, state)


def test_five_links_through_a_dead_shell_a_dead_controller_and_a_refused_sbatch(cluster, folder: Path) -> None:
    chain = AgentlessChain(cluster, folder, links=5, warmup_s=8)
    chain.start()
    wait_for(chain, lambda: 1 in chain.events("saved"), 40, "link 1 hands over to link 2")

    wait_for(chain, lambda: chain.shells(2) and "link 2" in chain.log(), 20, "link 2 has its successor")
    cluster.run("scontrol", "update", "PartitionName=main", "State=DRAIN")  # every sbatch is refused from now on
    chain.kill(chain.shells(2)[0])  # the batch shell: Slurm ends the job
    wait_for(chain, lambda: 3 in chain.events("up"), 40, "link 3 follows the dead link 2")
    wait_for(chain, lambda: "link 3" in chain.log() and "sbatch: " in chain.log(), 20, "link 3's sbatch is refused")
    cluster.run("scontrol", "update", "PartitionName=main", "State=UP")

    wait_for(chain, lambda: 4 in chain.events("up"), 60, "link 4")
    time.sleep(6)  # a controller that is killed forgets what it did in the last five seconds
    cluster.kill_controller()
    wait_for(chain, lambda: "link 4 job" in chain.log() and "squeue: " in chain.log(), 60, "link 4 gets no answer")
    cluster.start_controller()
    wait_for(chain, lambda: 5 in chain.events("up"), 120, "link 5 after the controller's restart")
    wait_for(chain, lambda: 4 in chain.events("saved"), 60, "link 4 hands over")
    subprocess.run(["scancel", str(chain.job_of(5))], env=chain.environment, check=True)
    wait_for(chain, lambda: not chain.alive(), 60, "nothing is left")
    assert chain.violations() == []
    assert chain.events("up") == [1, 2, 3, 4, 5]
    assert {link: len(jobs) for link, jobs in chain.jobs().items()} == {2: 1, 3: 1, 4: 1, 5: 1}
    assert "squeue: " in chain.log()  # the dead controller was noticed


@pytest.mark.soak
def test_a_requeued_link_resumes_with_its_successor(cluster, folder: Path) -> None:
    chain = AgentlessChain(cluster, folder, lead_s=1, links=2)  # nothing is released before the end
    chain.start()
    wait_for(chain, lambda: 2 in chain.jobs(), 30, "the successor is queued")
    (successor,) = chain.jobs()[2]
    cluster.run("scontrol", "requeue", str(chain.job_of(1)))
    wait_for(chain, lambda: chain.events("up") == [1, 1], 90, "link 1 runs again")
    time.sleep(5)  # two more looks at the queue
    assert chain.jobs()[2] == [(successor[0], "PENDING")]
    cluster.run("scancel", str(chain.job_of(1)))
    wait_for(chain, lambda: 2 in chain.events("up"), 60, "link 2 follows")
    cluster.run("scancel", str(chain.job_of(2)))
    wait_for(chain, lambda: not chain.alive(), 60, "nothing is left")
    assert len(chain.jobs()[2]) == 1


@pytest.mark.soak
def test_a_second_job_of_a_link_leaves_at_once(cluster, folder: Path) -> None:
    chain = AgentlessChain(cluster, folder, lead_s=1, links=1)
    chain.start()
    wait_for(chain, lambda: 1 in chain.events("up"), 30, "link 1")
    first = chain.job_of(1)
    chain.start()
    wait_for(chain, lambda: f"job {first} or a later one runs" in chain.log(), 30, "the second leaves")
    cluster.run("scancel", str(first))
    wait_for(chain, lambda: not chain.alive(), 60, "nothing is left")
    assert chain.events("up") == [1]


@pytest.mark.soak
def test_work_that_is_done_ends_the_chain_and_a_crash_loop_stops_it(cluster, folder: Path) -> None:
    chain = AgentlessChain(cluster, folder, seconds=0, until_done=True)
    chain.start()
    wait_for(chain, lambda: "the work is done" in chain.log() and not chain.alive(), 60, "the chain ends")
    assert chain.events("up") == [1]

    (folder / "crash").mkdir()
    chain = AgentlessChain(cluster, folder / "crash", seconds=0, status=3, until_done=True, least_s=30)
    chain.start()
    wait_for(chain, lambda: "three links in a row" in chain.log() and not chain.alive(), 90, "the chain stops")
    assert chain.events("up") == [1, 2, 3]


def test_slurms_estimate_is_the_one_that_the_policy_computes(cluster, tmp_path: Path) -> None:
    def sbatch(*words: str) -> int:
        return int(cluster.run("sbatch", "--parsable", "--exclusive", "-o/dev/null", *words, "--wrap", "sleep 600"))

    script = str(tmp_path / "link.sh")
    Path(script).write_text("#!/bin/sh\n")
    first = sbatch("-N3", "-t20")
    until(lambda: f"{first} RUNNING" in cluster.run("squeue", "-h", "-o", "%i %T"), 20, "the first job runs")
    jobs = [first, sbatch("-N2", "-t30"), sbatch("-N1", "-t60"), sbatch("-N1", "-t50", "--hold")]
    try:
        slurm = SlurmClient(SystemRunner(cluster.environment), clock=time.time)
        options = {"nodes": "1", "exclusive": None, "time": "5"}
        link = Submission(script, options, environment={**os.environ, **cluster.environment})
        read = read_estimate(slurm.test(link))
        names = Names()
        machine = slurm.machine()
        view = view_of(slurm.observe(), machine, Ended.nothing(), names)
        now_s, partition = view.now_s, names.code("partition", "main")
        chain = ChainView(1, 300, -1, now_s, now_s, now_s + 300, 60, partition=partition)
        assert read is not None
        assert len(view.pending) == 2
        assert slurm_wait_s(view, chain) == int(view.running.start_s[0]) + 1200 - now_s + (2 * 30 + 60) * 60 // 3
        assert abs(read.start_s - now_s - slurm_wait_s(view, chain)) <= 10
    finally:
        cluster.run("scancel", *map(str, jobs))
        until(lambda: not cluster.run("squeue", "-h"), 30, "nothing is left")


LONG_WAIT = """\
tree: 1
features:
    slurm_wait: duration
answers: wait, submit

if slurm_wait < 40min:
    wait
else:
    submit
"""


@pytest.mark.parametrize("backfill", [False, True])
def test_a_link_that_competes_is_held_again_before_it_starts_too_early(
    cluster, folder: Path, *, backfill: bool
) -> None:
    """No job is ahead of it any more, or Slurm plans to backfill it before the jobs ahead."""

    def sbatch(*words: str) -> str:
        return str(cluster.run("sbatch", "--parsable", "--exclusive", "-o/dev/null", *words, "--wrap", "sleep 600"))

    def dependency() -> str:
        (successor,) = chain.jobs()[2]
        return str(cluster.run("squeue", "-h", "-j", str(successor[0]), "-o", "%T %E")).strip()

    chain = AgentlessChain(cluster, folder, tree=LONG_WAIT, links=2)
    chain.start()
    wait_for(chain, lambda: 2 in chain.jobs(), 30, "the successor is queued")
    # the other nodes have an end after that of link 1, which leaves time for link 2 between the two, or before
    jobs = [sbatch("-N2", "-t20" if backfill else "-t4").strip()]
    held = f"PENDING afterany:{chain.job_of(1)}(unfulfilled)"
    try:
        wait_for(chain, lambda: f"{jobs[0]} RUNNING" in chain.alive(), 30, "all nodes are in use")
        assert dependency() == held
        jobs.append(sbatch("-N3", "-t60").strip())
        wait_for(chain, lambda: "releases job" in chain.log(), 30, "an hour's work waits: the link competes")
        if not backfill:
            jobs.append(sbatch("-N3", "-t60", "--nice=1000").strip())  # neither ahead nor in the estimate
            time.sleep(5)
            assert dependency() == "PENDING (null)"
            cluster.run("scontrol", "update", f"JobId={chain.jobs()[2][0][0]}", "Priority=100000")
        wait_for(chain, lambda: "holds job" in chain.log(), 40, "Slurm would start it soon: it is held again")
        time.sleep(5)
        assert dependency() == held  # the planned wait is still known
        assert chain.log().count("releases job") == 1
    finally:
        (folder / "stop").touch()
        cluster.run("scancel", *jobs, *(str(job) for made in chain.jobs().values() for job, _ in made))
        cluster.run("scancel", str(chain.job_of(1)))
        wait_for(chain, lambda: not chain.alive(), 60, "nothing is left")


@pytest.mark.soak
def test_random_kills(cluster, folder: Path) -> None:
    """kill -9 of a random shell of the newest link, again and again."""
    rng = random.Random(11)
    chain = AgentlessChain(cluster, folder)
    chain.start()
    for kill in range(KILLS):
        wait_for(chain, lambda: bool(chain.events("up")), 30, "a link runs")
        time.sleep(rng.uniform(0.3, 4.0))
        wait_for(chain, lambda: bool(chain.shells(max(chain.events("up")))), 60, f"a shell to kill, {kill}")
        if pids := chain.shells(max(chain.events("up"))):
            chain.kill(rng.choice(pids))
        wait_for(chain, lambda: bool(chain.alive()), 5, f"the chain lives after kill {kill}")
    before = max(chain.events("up"))
    wait_for(chain, lambda: max(chain.events("up")) > before, 330, "the chain goes on")
    (folder / "stop").touch()
    wait_for(chain, lambda: not any("PENDING" in line for line in chain.alive()), 60, "the successor is withdrawn")
    for line in chain.alive():
        cluster.run("scancel", line.split()[0])
    wait_for(chain, lambda: not chain.alive(), 60, "nothing is left")
    assert chain.violations() == []
