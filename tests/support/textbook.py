"""Textbook queue disciplines in plain Python on one pool: slow and short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mirage.sim.cluster import Reservation

NEVER_S = 10**15


@dataclass
class Job:
    submit_s: int
    run_s: int
    limit_s: int
    nodes: int
    start_s: int = -1

    @property
    def end_s(self) -> int:
        return self.start_s + min(self.run_s, self.limit_s)

    @property
    def limit_end_s(self) -> int:
        return self.start_s + self.limit_s


@dataclass
class Machine:
    nodes: int
    now_s: int = 0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    reservations: tuple[Reservation, ...] = ()

    @property
    def free(self) -> int:
        return self.nodes - sum(job.nodes for job in self.running) - self.reserved(self.now_s)

    @property
    def known(self) -> list[Reservation]:
        return [r for r in self.reservations if r.announced_s is None or r.announced_s <= self.now_s]

    def reserved(self, time_s: int) -> int:
        return sum(r.nodes for r in self.known if r.start_s <= time_s < r.end_s)

    def lasting(self, limit_s: int) -> int:
        """Nodes free from now until a limit, if running jobs use up theirs."""
        until_s = self.now_s + limit_s
        times_s = [self.now_s, *(r.start_s for r in self.known if self.now_s < r.start_s < until_s)]
        running = [(job.limit_end_s, job.nodes) for job in self.running]
        return min(
            self.nodes - sum(nodes for end_s, nodes in running if end_s > time_s) - self.reserved(time_s)
            for time_s in times_s
        )

    def start(self, job: Job) -> None:
        job.start_s = self.now_s
        self.queue.remove(job)
        self.running.append(job)


def fcfs(machine: Machine) -> None:
    while machine.queue and machine.queue[0].nodes <= machine.lasting(machine.queue[0].limit_s):
        machine.start(machine.queue[0])


def easy(machine: Machine) -> None:
    fcfs(machine)
    if not machine.queue:
        return
    head = machine.queue[0]
    free, shadow_s = machine.free, NEVER_S
    for end_s in sorted({job.limit_end_s for job in machine.running}):
        free = machine.nodes - sum(job.nodes for job in machine.running if job.limit_end_s > end_s)
        if free >= head.nodes:
            shadow_s = end_s
            break
    if machine.reservations:
        conservative(machine, promised=1)
        return
    extra = free - head.nodes
    for job in machine.queue[1:]:
        if job.nodes > machine.free:
            continue
        if machine.now_s + job.limit_s <= shadow_s:
            machine.start(job)
        elif job.nodes <= extra:
            extra -= job.nodes
            machine.start(job)


def conservative(machine: Machine, tested: int = 10**9, promised: int = 10**9) -> None:
    """Plans the first ``tested`` jobs; the first ``promised`` ones have reservations."""
    now_s = machine.now_s
    taken = [(now_s, job.limit_end_s, job.nodes) for job in machine.running]  # from, to, nodes
    taken += [(max(r.start_s, now_s), r.end_s, r.nodes) for r in machine.known if r.end_s > now_s]

    def free_at(time_s: int) -> int:
        return machine.nodes - sum(nodes for from_s, to_s, nodes in taken if from_s <= time_s < to_s)

    for place, job in enumerate(list(machine.queue)[:tested]):
        times = sorted({now_s, *(to_s for _, to_s, _ in taken)})
        for begin_s in times:
            inside = [begin_s, *(f for f, _, _ in taken if begin_s < f < begin_s + job.limit_s)]
            if all(free_at(time_s) >= job.nodes for time_s in inside):
                if begin_s == now_s or place < promised:
                    taken.append((begin_s, begin_s + job.limit_s, job.nodes))
                if begin_s == now_s:
                    machine.start(job)
                break


def replay(
    jobs: list[Job],
    nodes: int,
    schedule_pass: Callable[[Machine], None],
    reservations: tuple[Reservation, ...] = (),
    every_s: int | None = None,
) -> list[int]:
    """Starts of the jobs, which come in order of submission.

    Args:
        every_s: The discipline also looks at multiples of this while a job waits.
    """
    machine = Machine(nodes, reservations=reservations)
    coming = list(jobs)
    marks = {time_s for r in reservations for time_s in (r.start_s, r.end_s, r.announced_s) if time_s is not None}
    machine.now_s = -1
    while coming or machine.running or machine.queue:
        marks = {time_s for time_s in marks if time_s > machine.now_s}
        due = [(machine.now_s // every_s + 1) * every_s] if every_s and machine.queue else []
        events = [job.submit_s for job in coming[:1]] + [job.end_s for job in machine.running]
        machine.now_s = min([*events, *marks, *due])
        machine.running = [job for job in machine.running if job.end_s > machine.now_s]
        while coming and coming[0].submit_s <= machine.now_s:
            machine.queue.append(coming.pop(0))
        schedule_pass(machine)
    return [job.start_s for job in jobs]
