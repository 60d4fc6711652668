"""One contract, three clusters: simulated Slurm, the same behind commands, a real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirage.duration import DAY_S
from mirage.errors import RequestNotSent, SlurmError, SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING, JobState
from mirage.lab.commands.server import served_slurm
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.backend import Backend
from mirage.slurm.client import SlurmClient
from mirage.slurm.queue_source import ScontrolClient
from mirage.slurm.records import QueuedJob, Submission
from mirage.slurm.runner import Completed, SystemRunner
from mirage.trace.table import JobTable

NODES, GPUS, CPUS = 2, 8, 64
SCRIPT = "#!/bin/bash\ntrap 'exit 0' USR2\nwhile true; do sleep 600 & wait $!; done\n"


@dataclass
class Site:
    """A cluster of two nodes, and how its time passes."""

    backend: Backend
    sleep: Callable[[float], object]
    script: str

    def submit(self, **options: str | None) -> int:
        given = {"nodes": "1", "gpus-per-node": str(GPUS), "time": "10", "output": "/dev/null", **options}
        given = {name.replace("_", "-"): value for name, value in given.items()}
        return self.backend.submit(Submission(self.script, given, directory=str(Path(self.script).parent)))

    def job(self, number: int) -> QueuedJob:
        return next(job for job in self.backend.observe().jobs if job.id == number)

    def until(self, number: int, *states: JobState, tries: int = 600) -> QueuedJob:
        for _ in range(tries):
            job = self.job(number)
            if job.state in states:
                return job
            self.sleep(0.2)
        raise AssertionError(f"{job} is not {states}")


def simulated() -> VirtualSlurm:
    cluster = Cluster((NodeGroup("node", NODES, GPUS, CPUS),), (Partition("main", max_limit_s=2 * DAY_S),), True)
    slurm = VirtualSlurm(Simulation(cluster, workload(JobTable.build([]), cluster), "slurm"), requeue_hold_s=6)
    slurm.sleep(DAY_S)
    return slurm


SITES = ["simulated", "commands", pytest.param("real", marks=[pytest.mark.real_slurm, pytest.mark.slow])]


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT)
    if request.param == "real":
        cluster = request.getfixturevalue("two_nodes")
        found = Site(SlurmClient(SystemRunner(cluster.environment)), time.sleep, str(script))
        yield found
        for job in found.backend.observe().jobs:
            found.backend.cancel(job.id)
            found.until(job.id, *(set(JobState) - {JobState.PENDING, JobState.RUNNING}))
    elif request.param == "commands":
        with served_slurm(simulated()) as served:
            client = SlurmClient(SystemRunner(served.environment), clock=served.slurm.clock, user=served.slurm.user)
            yield Site(client, lambda seconds: served.slurm.sleep(10 * seconds), str(script))
    else:
        slurm = simulated()
        yield Site(slurm, lambda seconds: slurm.sleep(10 * seconds), str(script))


@pytest.fixture(scope="module")
def two_nodes(private_cluster: Callable[..., object]) -> object:
    return private_cluster(nodes=NODES, gpus=GPUS, cpus=CPUS)


def test_a_job_is_observed_as_it_was_requested(site: Site) -> None:
    number = site.submit(job_name="ours", comment="mirage:x:1:abcd", time="7")
    job = site.until(number, JobState.RUNNING)
    assert (job.name, job.comment, job.limit_s, job.nodes, job.gpus) == ("ours", "mirage:x:1:abcd", 420, 1, GPUS)
    assert job.partition
    assert job.user
    assert job.nodelist == "n1"
    assert job.submit_s <= job.eligible_s <= job.start_s
    assert job.end_s == job.start_s + 420


@pytest.mark.parametrize("site", SITES[1:], indirect=True)
def test_some_jobs_alone_are_as_the_whole_queue_shows_them(site: Site) -> None:
    first = site.submit()
    second = site.submit(dependency=f"afterany:{first}")
    site.until(first, JobState.RUNNING)
    assert isinstance(site.backend, SlurmClient)
    for numbers in ([first], [first, second], [first, 424_242]):
        found = {job.id: (job.state, job.nodelist, job.user) for job in site.backend.observe_jobs(numbers)}
        shown = [site.job(number) for number in numbers if number != 424_242]
        assert found == {job.id: (job.state, job.nodelist, job.user) for job in shown}
    assert site.backend.observe_jobs([424_242]) == site.backend.observe_jobs([]) == ()


def test_the_machine_and_its_options(site: Site) -> None:
    machine = site.backend.machine()
    assert [(node.name, node.gpus, node.cpus, node.usable) for node in machine.nodes] == [
        (f"n{k}", GPUS, CPUS, True) for k in (1, 2)
    ]
    (partition,) = (one for one in machine.partitions if one.default)
    assert sorted(partition.nodes) == ["n1", "n2"]
    assert not partition.whole_nodes
    options = site.backend.configuration()
    assert options["schedulertype"] == "sched/backfill"
    assert "bf_interval" in options["schedulerparameters"]


def test_a_cluster_without_reservations(site: Site) -> None:
    assert site.backend.reservations() == ()


def test_a_probe_is_answered_where_no_job_has_the_number_of_its_query(site: Site) -> None:
    for _ in range(2):
        with suppress(SlurmRefused):
            site.backend.probe()
        site.submit()


def test_a_job_waits_for_another_until_its_dependency_is_cleared(site: Site) -> None:
    first = site.submit()
    site.until(first, JobState.RUNNING)
    second = site.submit(dependency=f"afterany:{first}")
    site.sleep(3)
    waiting = site.job(second)
    assert waiting.state is JobState.PENDING
    assert waiting.reason == "Dependency"
    assert waiting.dependency.startswith(f"afterany:{first}")
    site.backend.update(second, {"Dependency": ""})
    started = site.until(second, JobState.RUNNING)
    assert started.dependency == ""
    assert site.job(first).state is JobState.RUNNING


def test_a_dependent_job_starts_by_itself_when_the_other_has_ended(site: Site) -> None:
    first = site.submit()
    second = site.submit(dependency=f"afterany:{first}")
    site.until(first, JobState.RUNNING)
    site.backend.cancel(first)
    site.until(second, JobState.RUNNING)
    assert site.job(first).state is JobState.CANCELLED


def test_a_held_job_waits_for_its_release(site: Site) -> None:
    number = site.submit(hold=None)
    site.sleep(3)
    held = site.job(number)
    assert (held.state, held.reason, held.priority) == (JobState.PENDING, "JobHeldUser", 0.0)
    site.backend.release(number)
    site.until(number, JobState.RUNNING)


def test_a_job_without_room_shows_why_it_waits(site: Site) -> None:
    for _ in range(NODES):
        site.until(site.submit(), JobState.RUNNING)
    number = site.submit()
    site.sleep(3)
    waiting = site.job(number)
    assert waiting.state is JobState.PENDING
    assert waiting.reason == "Resources"
    assert waiting.priority > 0


def test_a_signal_lets_a_job_leave(site: Site) -> None:
    number = site.submit()
    site.until(number, JobState.RUNNING)
    site.sleep(1)  # bash has set its trap
    site.backend.signal(number, "USR2")
    ended = site.until(number, JobState.COMPLETED)
    assert ended.exit_code == 0
    assert ended.end_s >= ended.start_s != MISSING
    site.backend.signal(number, "USR2")


def test_cancelling_is_no_error_once_a_job_has_ended(site: Site) -> None:
    number = site.submit()
    site.backend.cancel(number)
    site.until(number, JobState.CANCELLED)
    site.backend.cancel(number)
    site.backend.cancel(987_654)
    assert site.job(number).state is JobState.CANCELLED


def test_a_job_that_has_started_is_not_cancelled_with_those_that_wait(site: Site) -> None:
    runs = site.submit()
    waits = site.submit(dependency=f"afterany:{runs}")
    site.until(runs, JobState.RUNNING)
    for number in (runs, waits):
        site.backend.cancel(number, only_pending=True)
    site.until(waits, JobState.CANCELLED)
    site.backend.cancel(waits, only_pending=True)
    site.sleep(1)
    assert site.job(runs).state is JobState.RUNNING


def test_changes_are_observed(site: Site) -> None:
    number = site.submit()
    site.until(number, JobState.RUNNING)
    site.backend.update(number, {"Comment": "mirage:x:2:abcd ready", "TimeLimit": "5"})
    job = site.job(number)
    assert (job.comment, job.limit_s) == ("mirage:x:2:abcd ready", 300)


def test_several_jobs_are_changed_at_once(site: Site) -> None:
    first = site.submit()
    held = [site.submit(dependency=f"afterany:{first}") for _ in range(2)]
    site.until(first, JobState.RUNNING)
    site.backend.update(held, {"Dependency": "", "TimeLimit": "3"})
    assert [site.job(number).dependency for number in held] == ["", ""]
    assert [site.job(number).limit_s for number in held] == [180, 180]
    with pytest.raises(SlurmRefused, match="Invalid job id specified"):
        site.backend.update([held[0], 987_654], {"TimeLimit": "2"})
    assert site.job(held[0]).limit_s == 120


def test_a_requeued_job_runs_again(site: Site) -> None:
    number = site.submit()
    started_s = site.until(number, JobState.RUNNING).start_s
    site.sleep(1)
    site.backend.requeue(number)
    site.until(number, JobState.PENDING)
    assert site.until(number, JobState.RUNNING).start_s > started_s


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": "nowhere"}, "invalid partition"),
        ({"time": "soon"}, "Invalid --time specification"),
    ],
)
def test_a_refusal_comes_in_slurm_s_words(site: Site, options: dict[str, str], words: str) -> None:
    with pytest.raises(SlurmRefused, match=words):
        site.submit(**options)


def test_an_unknown_job_cannot_be_changed(site: Site) -> None:
    with pytest.raises(SlurmRefused, match="Invalid job id specified"):
        site.backend.update(987_654, {"TimeLimit": "5"})


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("41\n", 41),
        ("41;other\n", 41),
        ("Project charged: x\n41\n", 41),
        ("41\nbalance: 5 hours\n", 41),
        ("5\n41\n", None),
        ("Submitted batch job 41\n", None),
        ("", None),
    ],
)
def test_the_job_id_is_the_one_line_of_sbatch_s_answer_that_is_a_number(printed: str, number: int | None) -> None:
    class Answering(SystemRunner):
        def run(self, argv: Sequence[str], **_: object) -> Completed:
            return Completed(0, printed, "")

    client = SlurmClient(Answering())
    with nullcontext() if number else pytest.raises(SlurmUnreachable, match="which is not a job id"):
        assert client.submit(Submission("job.sh")) == number


UP = Completed(0, "Slurmctld(primary) at vm is UP\n", "")
STANDBY = Completed(0, "Slurmctld(primary) at h1 is DOWN\nSlurmctld(backup) at h2 is UP\n", "")
DOWN = Completed(1, "Slurmctld(primary) at vm is DOWN\n*****\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n*****\n", "")
NO_JOB = Completed(1, "", "slurm_load_jobs error: Invalid job id specified\n")
IN_STANDBY = Completed(1, "", "slurm_load_jobs error: Slurm backup controller in standby mode\n")
NO_CONTACT = Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
NO_CLUSTER = Completed(1, "", "scontrol: fatal: Could not establish a configuration source\n")


@pytest.mark.parametrize(
    ("ping", "job", "error", "count"),
    [
        (UP, NO_JOB, SlurmRefused, 2),
        (UP, Completed(0, "1\n", ""), None, 2),
        (STANDBY, IN_STANDBY, SlurmUnreachable, 2),
        (UP, NO_CONTACT, RequestNotSent, 2),
        (DOWN, NO_JOB, SlurmUnreachable, 1),
        (NO_CLUSTER, NO_JOB, RequestNotSent, 1),
    ],
)
@pytest.mark.parametrize("source", [SlurmClient, ScontrolClient])
def test_a_probe_of_slurm_s_commands(
    source: type[SlurmClient], ping: Completed, job: Completed, error: type[Exception] | None, count: int
) -> None:
    """Answers of Slurm 22.05.8; that of a standby is taken from its sources."""
    given: list[list[str]] = []

    class Recorded(SystemRunner):
        def run(self, argv: Sequence[str], **_: object) -> Completed:
            given.append(list(argv))
            return ping if argv[1] == "ping" else job

    with nullcontext() if error is None else pytest.raises(SlurmError) as caught:
        source(Recorded()).probe()
    assert error is None or type(caught.value) is error
    assert len(given) == count
