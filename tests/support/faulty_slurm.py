"""Faults of a cluster, on request: outages, lost answers, refusals, failed launches.

slurm = FaultySlurm(Simulation(Cluster.pool(76), jobs))
slurm.lose_answers = 1
slurm.restart_controller(silent_s=600)
"""

from __future__ import annotations

from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.slurm.records import Submission

_SILENCE = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


class FaultySlurm(VirtualSlurm):
    """A simulated Slurm with configurable faults; by default it has none.

    Attributes:
        unreachable: While true, every command goes unanswered.
        outages: Periods (from, until) with the same effect.
        lose_answers: Number of the next submissions that take effect without an answer.
        refuse: Message with which sbatch rejects; empty while it does not.
        refusals: Number of submissions that it rejects with this message; None for all.
        commands: Number of commands received.
    """

    unreachable = False
    lose_answers = 0
    refuse = ""
    refusals: int | None = None
    commands = 0
    outages: tuple[tuple[float, float], ...] = ()

    def arrive(self) -> None:
        """Receive a command, or fail during an outage."""
        self.commands += 1
        now_s = self.clock()
        if self.unreachable or any(begin_s <= now_s < end_s for begin_s, end_s in self.outages):
            raise SlurmUnreachable("the command had no answer from Slurm", _SILENCE)
        super().arrive()

    def submit(self, submission: Submission) -> int:
        """Submit like sbatch, except for configured rejections and lost answers."""
        if self.refuse and self.refusals != 0:
            self.arrive()
            self.refusals = None if self.refusals is None else self.refusals - 1
            raise SlurmRefused("sbatch failed with status 1", f"sbatch: error: {self.refuse}")
        number = super().submit(submission)
        if self.lose_answers:
            self.lose_answers -= 1
            raise SlurmUnreachable("sbatch had no answer from Slurm", "Socket timed out on send/recv operation")
        return number

    def fail_launch(self, job: int) -> None:
        """Fail the launch of a running job: Slurm requeues and holds it."""
        self.requeue(job, hold=True)
        self.own[job].why_held = "launch failed requeued held"

    def restart_controller(self, silent_s: float) -> None:
        """Answer no command for some time; jobs continue and no state is lost."""
        self.outages = (*self.outages, (self.clock(), self.clock() + silent_s))
