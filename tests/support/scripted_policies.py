"""A runner of policies with scripted answers, and the view of a cluster with one chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mirage.agent.cycle.context import CycleContext
from mirage.agent.decision.decide import Decider
from mirage.agent.model import Link
from mirage.agent.policy_runner.question import Answer, Question
from mirage.job_state import JobState
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.view import View
from mirage.slurm.records import AccountedJob, Machine, Node, QueuedJob, SlurmPartition
from mirage.slurm.slurm_view import Names, ended_of, view_of
from tests.support.one_chain import KEY, NOW_S, OneChain, held, job, running, tagged

SUBMIT, WAIT = Plan((Submit(reason="now"),)), Plan((Wait(reason="not-now"),))
MACHINE = Machine(
    tuple(Node(f"n{k}", "idle", True, 64, 0, ("main",)) for k in range(8)),
    (SlurmPartition("main", True, 172_800, 3_600, tuple(f"n{k}" for k in range(8)), whole_nodes=True),),
)


class Scripted:
    """Answers on command, and records its requests."""

    def __init__(self) -> None:
        self.requested: list[Question] = []
        self.waited_s: list[float] = []
        self.rests, self.why = 0, ""
        self._ready: list[Answer] = []

    def request(self, questions: Sequence[Question], options: Mapping[str, str], view: View) -> None:
        self.requested += questions

    def answers(self, wait_s: float) -> list[Answer]:
        self.waited_s.append(wait_s)
        given, self._ready = self._ready, []
        return given

    def reply(self, plan: Plan | str, chain: int = 1, number: int | None = None) -> None:
        """Add an answer, by default to the last question about a chain; text is a failure."""
        if number is None:
            number = next(question.number for question in reversed(self.requested) if question.chain == chain)
        whole, trouble = (None, plan) if isinstance(plan, str) else (plan, "")
        self._ready.append(Answer(chain, whole, trouble, number))

    def prepare(self, policies: Sequence[str]) -> None: ...

    def excuse(self) -> str:
        return self.why

    def rest(self) -> None:
        self.rests += 1

    def close(self) -> None: ...


class Deciding:
    """A chain with a running first link and a held second one, its decider, and both clocks."""

    def __init__(self, world: OneChain | None = None, waits_s: Sequence[int] = ()) -> None:
        self.world = world or deciding_chain()
        self.runner, self.real_s = Scripted(), 500.0
        self.decider = Decider(lambda: self.real_s, self.runner)
        self.ended = [ended_after(wait_s, k) for k, wait_s in enumerate(waits_s)]

    def view(self, context: CycleContext) -> View:
        names = Names()
        return view_of(context.snapshot.queue, MACHINE, ended_of(self.ended, names), names)

    def cycle(self, after_s: int = 0, *attended: int) -> int:
        """One cycle so much later on both clocks."""
        self.world.context.now_s += after_s
        self.real_s += after_s
        return self.decider.decide(self.world.context, self.view, attended or [*self.world.context.chains])

    @property
    def decided(self) -> list[tuple[int, str, bool]]:
        return [(record.chain, record.policy, record.submits) for record in self.world.store.decided]


def pair(first: int = 1, key: str = KEY, jobs_from: int = 100, limit_s: int = 3_600) -> list[QueuedJob]:
    """The jobs of a link that began at 9,000, and of the one held after it."""
    known: dict[str, Any] = {"partition": "main", "limit_s": limit_s}
    tags = [tagged(number, key=key) for number in (first, first + 1)]
    return [
        job(jobs_from + first, JobState.RUNNING, comment=tags[0], start_s=9_000, nodelist="n0", **known),
        job(jobs_from + first + 1, JobState.PENDING, comment=tags[1], dependency="afterany", **known),
    ]


def deciding_chain(*links: Link, first: int = 1, **spec: Any) -> OneChain:
    """A link of an hour that began at 9,000, and one held after it."""
    links = links or (running(first, ready_s=9_000), held(first + 1))
    return OneChain(*links, **{"policy": "lead:1", **spec}).shows(*pair(first))


def ended_after(wait_s: int, k: int) -> AccountedJob:
    """A job of another user with a given wait."""
    known: dict[str, Any] = {"user": "eve", "partition": "main", "limit_s": 600, "end_s": NOW_S - 10}
    return AccountedJob(900 + k, JobState.COMPLETED, submit_s=5_000, start_s=5_000 + wait_s, **known)
