"""Random plans: the engine agrees on every job with an independent integrator."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np
import pytest

from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuCancel, GpuPlan, GpuPreempt, GpuResize, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import GpuJobs

TICK = Fraction(1, 1024)
CLUSTER = GpuCluster(
    (
        ServerGroup("old", "k80", 2, 4, speed=0.5),
        ServerGroup("new", "v100", 2, 4, speed=1.0),
        ServerGroup("x", "v100", 1, 2),
    )
)
SPEED = [Fraction(1, 2)] * 2 + [Fraction(1)] * 3
TYPE = [0, 0, 1, 1, 1]
SIZE = [4, 4, 4, 4, 2]


@dataclass
class Life:
    """One job, followed in exact arithmetic."""

    submit: Fraction
    work: Fraction
    every: Fraction | float  # work between checkpoints
    cost: dict[str, Fraction]
    low: int
    high: int
    requested: int
    state: str = "future"
    now: Fraction = Fraction(0)
    places: dict[int, int] = field(default_factory=dict)
    progress: Fraction = Fraction(0)
    saved: Fraction = Fraction(0)
    stretches: list[tuple[Fraction, Fraction, Fraction, Fraction, int]] = field(default_factory=list)
    until: Fraction | None = None
    goal: Fraction | None = None
    amounts: dict[str, Fraction] = field(
        default_factory=lambda: dict.fromkeys(("useful", "lost", "overhead", "queued"), Fraction(0))
    )
    started: int = 0
    left: int = 0
    end: Fraction | None = None

    @property
    def held(self) -> int:
        return sum(self.places.values())

    def rate(self) -> Fraction:
        return self.held * SPEED[next(iter(self.places))]

    def live(self, to: Fraction) -> None:
        """Follow the job's own events up to and including a time."""
        if self.state == "future" and self.submit <= to:
            self.state, self.now = "pending", self.submit
        while self.state not in ("future", "over") and (self.now < to or self.event() == to):
            step_to = min(to, self.event() or to)
            self.amounts["queued" if self.state == "pending" else "useful" if self.until is None else "overhead"] += (
                1 if self.state == "pending" else self.held
            ) * (step_to - self.now)
            due = self.event() == step_to
            if self.state in ("running", "stopping"):
                goal = self.goal if self.goal is not None else self.work
                reached = goal if due else self.progress + self.rate() * (step_to - self.now)
                self.stretches.append((self.now, step_to, self.progress, self.rate(), self.held))
                self.progress = reached
            self.now = step_to
            if due:
                self.happen()
            elif step_to == to:
                return

    def event(self) -> Fraction | None:
        if self.state == "pending":
            return None
        if self.until is not None:
            return self.until
        goal = self.goal if self.goal is not None else self.work
        return self.now + ceil((goal - self.progress) / self.rate() / TICK) * TICK

    def happen(self) -> None:
        if self.state == "starting":
            self.state, self.until = "running", None
        elif self.state == "saving":
            self.leave(saves=True)
        elif self.progress >= self.work:
            self.state, self.end, self.places = "over", self.now, {}
        else:
            self.leave(saves=True)

    def safe(self) -> Fraction:
        if self.every == 0:
            return self.progress
        if self.every == inf:
            return self.saved
        return max(self.saved, floor(self.progress / self.every) * self.every)

    def unsafe(self) -> Fraction:
        """GPU-seconds since the last checkpoint."""
        safe, amount = self.safe(), Fraction(0)
        if safe == self.progress:
            return amount
        for begin, end, progress, rate, held in self.stretches:
            crossed = begin if progress >= safe else begin + (safe - progress) / rate
            crossed = ceil(crossed / TICK - Fraction(1, 2)) * TICK
            amount += held * max(end - max(begin, crossed), 0)
        return amount

    def leave(self, saves: bool) -> None:
        if not saves:
            lost = self.unsafe()
            self.amounts["lost"] += lost
            self.amounts["useful"] -= lost
            self.progress = self.safe()
        self.settle_down()
        self.state, self.places, self.goal, self.until = "pending", {}, None, None
        self.left += 1

    def settle_down(self) -> None:
        """Everything done so far is safe."""
        self.saved, self.stretches = self.progress, []

    def sit(self, places: dict[int, int], cost: str) -> None:
        self.places, self.goal = dict(places), None
        self.state, self.until = ("starting", self.now + self.cost[cost]) if self.cost[cost] else ("running", None)
        self.started += 1

    def preempt(self, how: str) -> None:
        if self.state != "running":
            self.leave(saves=how != "kill" or self.state == "starting")
        elif how == "kill" or self.unsafe() == 0:
            self.leave(saves=how != "kill")
        elif how == "boundary":
            self.state = "stopping"
            self.goal = self.work
            if self.every != inf:
                self.goal = min(self.work, (floor(self.progress / self.every) + 1) * self.every)
        elif self.cost["save"]:
            self.state, self.until = "saving", self.now + self.cost["save"]
        else:
            self.leave(saves=True)


def apply_plan(lives: list[Life], plan: GpuPlan) -> set[int]:
    """Apply a plan; the places of the refused actions in it."""
    refused, named, acquiring = set(), set(), []
    for k, action in enumerate(plan.actions):
        life = lives[action.job] if 0 <= action.job < len(lives) else None
        if life is None or life.state in ("future", "over") or action.job in named:
            refused.add(k)
            continue
        named.add(action.job)
        leaving = life.state in ("stopping", "saving")
        if isinstance(action, GpuStart | GpuResize):
            wrong = life.state != "pending" if isinstance(action, GpuStart) else life.state == "pending" or leaving
            stays = isinstance(action, GpuResize) and action.places == life.places
            gpus = sum((action.places or {0: life.requested}).values())
            if wrong or not (stays or life.low <= gpus <= life.high):
                refused.add(k)
            elif not stays:
                acquiring.append(k)
        elif isinstance(action, GpuPreempt) and (life.state == "pending" or (leaving and action.how != "kill")):
            refused.add(k)
    for k, action in enumerate(plan.actions):
        if k in refused:
            continue
        if isinstance(action, GpuPreempt):
            lives[action.job].preempt(action.how)
        elif isinstance(action, GpuCancel):
            lives[action.job].state, lives[action.job].places = "over", {}
    while True:
        no, again = _no_room(lives, plan, [k for k in acquiring if k not in refused])
        if not again:
            break
        refused.add(again[0])
    refused |= set(no)
    for k in acquiring:
        if k not in refused and isinstance(action := plan.actions[k], GpuResize):
            lives[action.job].settle_down()
    for k in acquiring:
        if k not in refused:
            action = plan.actions[k]
            life = lives[action.job]
            life.sit(action.places, "rescale" if life.places else "restart" if life.started else "first")
    return refused


def _no_room(lives: list[Life], plan: GpuPlan, acquiring: list[int]) -> tuple[list[int], list[int]]:
    """Which starts have no room, and the first change of size that has none."""
    moving = {plan.actions[k].job for k in acquiring}
    free = list(SIZE)
    for job, life in enumerate(lives):
        if job not in moving:
            for server, gpus in life.places.items():
                free[server] -= gpus
    no = []
    for k in acquiring:
        action = plan.actions[k]
        servers = list(action.places)
        fits = (
            all(0 <= s < len(SIZE) for s in servers)
            and len({TYPE[s] for s in servers}) == 1
            and all(0 < g <= free[s] for s, g in action.places.items())
        )
        if fits:
            for server, gpus in action.places.items():
                free[server] -= gpus
        elif isinstance(action, GpuResize):
            return [], [k]
        else:
            no.append(k)
    return no, []


class RandomPlans:
    """A scheduler that plans at random, and records its plans."""

    def __init__(self, seed: int, round_s: float | None) -> None:
        self.rng, self.round_s, self.plans, self.refused = np.random.default_rng(seed), round_s, [], {}

    def decide(self, view: GpuView) -> GpuPlan:
        self.refused[len(self.plans)] = {id(r.action) for r in view.refused}
        actions = []
        for k in range(len(view.jobs)):
            job, pending = int(view.jobs.id[k]), bool(view.jobs.pending[k])
            if pending or self.rng.random() < 0.3:
                actions.append(self._action(job, pending, view, k))
        if self.rng.random() < 0.05:
            actions.append(GpuStart(99))
        self.rng.shuffle(actions)
        self.plans.append((view.now_s, GpuPlan(tuple(actions), wake_s=view.now_s + 9.25)))
        return self.plans[-1][1]

    def _action(self, job, pending, view, k):
        chance = self.rng.random()
        if pending != (chance < 0.05) or chance > 0.6:
            places = self._places(view) if self.rng.random() < 0.9 else {int(self.rng.integers(-1, 6)): 1}
            if not pending and chance > 0.97:
                places = view.held.of(k)
            return (GpuStart if pending != (chance < 0.05) else GpuResize)(job, places)
        if chance < 0.08:
            return GpuCancel(job)
        return GpuPreempt(job, how=("boundary", "save", "kill")[self.rng.integers(3)])

    def _places(self, view):
        kind, wanted, places = int(self.rng.integers(2)), int(self.rng.integers(1, 6)), {}
        for server in self.rng.permutation(5).tolist():
            room = int(view.servers.free[server]) if self.rng.random() < 0.9 else int(self.rng.integers(1, 5))
            if TYPE[server] == kind and room and wanted:
                places[server] = min(room, wanted)
                wanted -= places[server]
        return places or {kind * 2: 1}


def one_case(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    gpus = rng.integers(1, 5, n)
    jobs = GpuJobs.linear(
        np.sort(rng.integers(0, 40, n)), gpus, rng.integers(1, 60, n), min_gpus=1, max_gpus=np.maximum(gpus, 5)
    )
    costs = {name: rng.integers(0, 5, n) * rng.integers(0, 2) / 2 for name in ("first", "restart", "rescale", "save")}
    every = rng.choice([0.0, 5.0, 7.5, 40.0, inf], n)
    dice = RandomPlans(seed, [None, 2.5, 10.0][seed % 3])
    simulation = GpuSimulation(
        CLUSTER, jobs, dice, costs=LifeCosts(*(costs[name] for name in ("first", "restart", "rescale", "save")), every)
    )
    log = simulation.run(until_s=160.0)
    lives = [
        Life(
            Fraction(float(jobs.submit_s[k])), Fraction(float(jobs.work[k])),
            inf if every[k] == inf else Fraction(float(every[k])),
            {name: Fraction(float(of[k])) for name, of in costs.items()},
            int(jobs.min_gpus[k]), int(jobs.max_gpus[k]), int(gpus[k]),
        )
        for k in range(n)
    ]  # fmt: skip
    for number, (now_s, plan) in enumerate(dice.plans):
        for life in lives:
            life.live(Fraction(now_s))
        refused = apply_plan(lives, plan)
        if number + 1 < len(dice.plans):
            assert {id(plan.actions[k]) for k in refused} == dice.refused[number + 1], (seed, now_s)
    for life in lives:
        life.live(Fraction(log.now_s))
    log.gpu_intervals()  # raises where a GPU is held twice
    for life, row in zip(lives, log.rows):
        assert row.executed == row.useful + row.lost + row.overhead, seed
        for name, amount in life.amounts.items():
            assert getattr(row, "queued_s" if name == "queued" else name) == float(amount), (seed, row.id, name)
        assert (row.due_s if row.status == 6 else None) == (None if life.end is None else float(life.end)), seed
        assert row.progress == pytest.approx(float(life.progress), abs=1e-9), seed
        assert (row.restarts, row.preemptions) == (max(life.started - 1, 0), life.left), seed


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_plans(first: int) -> None:
    for seed in range(first, first + 20):
        one_case(seed)


@pytest.mark.slow
def test_a_thousand_random_plans() -> None:
    for seed in range(1_000, 2_000):
        one_case(seed)
