"""The source of the queue, from ``MIRAGE_QUEUE``: squeue, scontrol or slurmrestd.

With any source, jobs are submitted and changed by Slurm's commands: they accept every option of the site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirage.errors import UnknownName
from mirage.slurm.client import GONE, SlurmClient
from mirage.slurm.records import Machine, Queue, QueuedJob
from mirage.slurm.runner import Runner
from mirage.slurm.text import machine as machine_text
from mirage.slurm.text import scontrol as scontrol_text
from mirage.web_url import is_web_url

VARIABLE = "MIRAGE_QUEUE"
SOURCES = ("squeue", "scontrol", "http://HOST:PORT of slurmrestd")


class ScontrolClient(SlurmClient):
    """A cluster observed with ``scontrol show``, where squeue or sinfo is restricted."""

    one_job = ("scontrol", "--oneliner", "show", "job", "1")

    def observe(self) -> Queue:
        """The snapshot of the queue from ``scontrol show job``."""
        jobs = scontrol_text.read_jobs(self._run(scontrol_text.JOBS_COMMAND).stdout)
        return Queue(int(self.clock()) if self.clock is not None else 0, jobs)

    def observe_jobs(self, numbers: Sequence[int]) -> tuple[QueuedJob, ...]:
        """One ``scontrol show job`` per id; for each slurmctld searches one job."""
        found: list[QueuedJob] = []
        for number in numbers:
            done = self.runner.run((*scontrol_text.JOBS_COMMAND, str(number)))
            if not (done.status and GONE.search(done.stderr)):
                self._checked(done, "scontrol show job")
                found += scontrol_text.read_jobs(done.stdout)
        return tuple(job for job in found if job.user == self.user and job.id in numbers)

    def machine(self) -> Machine:
        """Nodes and partitions, from ``scontrol show node`` and ``scontrol show partition``."""
        nodes = scontrol_text.read_nodes(self._run(scontrol_text.NODES_COMMAND).stdout)
        return Machine(nodes, machine_text.read_partitions(self._run(machine_text.PARTITIONS_COMMAND).stdout))


def client_from(
    environment: Mapping[str, str], runner: Runner, clock: Callable[[], float], *, user: str = ""
) -> SlurmClient:
    """The client for the source in ``MIRAGE_QUEUE``; squeue where it is not set.

    Args:
        user: User of the jobs; by default the user of this process.

    Raises:
        UnknownName: There is no such source.
    """
    source = environment.get(VARIABLE, "") or SOURCES[0]
    if source == "squeue":
        return SlurmClient(runner, clock=clock, user=user)
    if source == "scontrol":
        return ScontrolClient(runner, clock=clock, user=user)
    if is_web_url(source):
        from mirage.slurm.rest import RestClient

        user, token = environment.get("USER", ""), environment.get("SLURM_JWT", "")
        return RestClient(source, runner, clock=clock, user=user, token=token)
    raise UnknownName(f"source of the queue in {VARIABLE},", source, SOURCES)
