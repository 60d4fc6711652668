"""Episode: one hand-over in a real queue, with the outcome of every submission time.

Waiting changes nothing about the cluster, so one replay serves every policy: at each decision time the replay is
forked, the next link submitted in the fork, and the fork run until it starts. A policy that submits at decision k
gets exactly outcome k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError, shown
from mirage.policy.view import ChainView, View
from mirage.provision.evaluation.evaluation_protocol import LINK_USERS, NAMED_USER, EvaluationProtocol
from mirage.provision.evaluation.followed_link import PATIENCE_S
from mirage.provision.link_size import LinkSize, load_class
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload

USE_S = 14 * DAY_S
"""The owner of the links is chosen by the node-hours of the jobs submitted in this time before the window."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Cluster and trace on which chains are evaluated.

    Attributes:
        jobs: The trace, ready for replay.
        discipline: The cluster's queue discipline.
        settings: Its parameters.
    """

    cluster: Cluster
    jobs: Workload
    discipline: str = "slurm"
    settings: SlurmSettings = field(default_factory=SlurmSettings)

    def __post_init__(self) -> None:
        if not isinstance(self.jobs, Workload):
            raise ConfigurationError(
                f"jobs must be a Workload of workload(table, cluster), got {type(self.jobs).__name__}"
            )

    def simulation(self, begin_s: int | None = None, end_s: int | None = None) -> Simulation:
        """Returns a replay of the jobs submitted in [begin, end]."""
        jobs = self.jobs
        if end_s is not None:
            last = int(np.searchsorted(jobs.jobs.submit_s, end_s, side="right"))
            jobs = Workload(jobs.jobs[:last].copy().view(np.recarray), jobs.table[:last], jobs.left_out)
        return Simulation(self.cluster, jobs, self.discipline, self.settings, begin_s)


@dataclass(frozen=True, slots=True)
class Episode:
    """A hand-over and all its possible outcomes.

    Attributes:
        window: Number of the window.
        link: Size of the links.
        submitted_s: When the predecessor was submitted.
        started_s: When it started.
        ends_s: When it ended.
        decisions_s: Shape (k,), when a policy is called, ascending: at every step, and at times that policies
            requested; the last is ``ends_s``, where every policy submits.
        outcome_s: Shape (k,), start of the next link minus end of the last if submitted then.
    """

    window: int
    link: LinkSize
    submitted_s: int
    started_s: int
    ends_s: int
    decisions_s: Ints
    outcome_s: Ints

    @property
    def reactive_s(self) -> int:
        """Interruption of a chain that submits when the last link has ended."""
        return int(self.outcome_s[-1])

    @property
    def load(self) -> str:
        """Load class of the window."""
        return load_class(self.reactive_s)


def warm_simulations(
    scenario: Scenario, protocol: EvaluationProtocol, windows: Iterable[int], early_s: int = 0
) -> Iterator[tuple[int, Simulation]]:
    """Yields a simulation for each window, ``early_s`` before its predecessor is submitted.

    A warm protocol uses one replay, forked for each window; windows must ascend. The machine of another one starts
    empty at its warm-up, or ``early_s`` before the submission if that is earlier.
    """
    replay = scenario.simulation() if protocol.warm_up_s is None else None
    for window in windows:
        at_s = protocol.submits_s(window)
        if replay is None:
            assert protocol.warm_up_s is not None
            end_s = None if protocol.arrivals_s is None else at_s - protocol.lead_in_s + protocol.arrivals_s
            sim = scenario.simulation(at_s - max(protocol.warm_up_s, early_s), end_s)
        else:
            replay.approach(at_s - early_s)
            sim = replay.fork()
        sim.approach(at_s - early_s)
        yield window, sim


OnView = Callable[[View], int | None]
"""Called with a view; returns the time at which it wants another one, between two decisions, or None."""

OnDecision = Callable[[Simulation, ChainView], None]
"""Called with a simulation at a decision, to be forked, and with the chain at that time."""


def play(
    sim: Simulation,
    protocol: EvaluationProtocol,
    link: LinkSize,
    window: int,
    on_view: OnView | None = None,
    on_decision: OnDecision | None = None,
) -> Episode:
    """Submit the links up to the predecessor, then step through the decisions to its end.

    Args:
        sim: Has not passed the submission of the first link; it is consumed.
        on_view: Called at every decision before the last with a policy's view, and at the times it requests.
        on_decision: Called at every decision, after ``on_view``, including the last.

    Raises:
        ConfigurationError: A link cannot start on this cluster.
    """
    chain = _predecessor(sim, protocol, link, window)
    submitted_s, started_s, ends_s = chain.submitted_s, chain.started_s, chain.ends_s
    decisions_s: list[int] = []
    outcome_s: list[int] = []
    branch = sim.fork()
    now_s = min(started_s + protocol.step_s, ends_s)
    while True:
        sim.approach(now_s)
        branch.restore(sim)
        following = branch.inject(nodes=link.nodes, limit_s=link.limit_s, user=chain.user)
        start_s = branch.run_until_started(following, now_s + PATIENCE_S)
        decisions_s.append(now_s)
        outcome_s.append((now_s + PATIENCE_S if start_s is None else start_s) - ends_s)
        named_s = None if on_view is None or now_s >= ends_s else on_view(sim.view(chain))
        if on_decision is not None:
            on_decision(sim, chain)
        if now_s >= ends_s:
            decisions, outcomes = np.array(decisions_s, dtype=np.int64), np.array(outcome_s, dtype=np.int64)
            return Episode(window, link, submitted_s, started_s, ends_s, decisions, outcomes)
        next_s = min(now_s + protocol.step_s - (now_s - started_s) % protocol.step_s, ends_s)
        now_s = next_s if named_s is None or named_s <= now_s else min(next_s, named_s)


def _predecessor(sim: Simulation, protocol: EvaluationProtocol, link: LinkSize, window: int) -> ChainView:
    """Submit one link after another until the predecessor has started; return the chain.

    Raises:
        ConfigurationError: A link cannot start on this cluster, or its user does not exist.
    """
    user = link_user(sim.workload, protocol.link_user, protocol.submits_s(window))
    ends_s = protocol.submits_s(window) - protocol.early_s([link])
    for _ in range(protocol.hand_over):
        sim.approach(ends_s)
        submitted_s = sim.now_s
        job = sim.inject(nodes=link.nodes, limit_s=link.limit_s, user=user)
        started_s = sim.run_until_started(job, submitted_s + PATIENCE_S)
        if started_s is None:
            raise ConfigurationError(
                f"window {window}: a link of {link.nodes} nodes does not start within {PATIENCE_S // DAY_S} days of "
                "its submission; is the simulated cluster smaller than the traced one?"
            )
        ends_s = started_s + link.limit_s
        chain = ChainView(link.nodes, link.limit_s, job, submitted_s, started_s, ends_s, protocol.step_s, user)
    return chain


def link_user(jobs: Workload, name: str, at_s: int) -> int:
    """Returns the code of the owner of links: 0 for a newcomer, otherwise a user of the trace.

    That user has the name after ``user:``, or a quantile of the node-hours of all users with jobs submitted in the
    ``USE_S`` before ``at_s``.

    Raises:
        ConfigurationError: The trace has no such user, or names no user in that time.
    """
    if name.startswith(NAMED_USER):
        names = jobs.table.user.names
        if name.removeprefix(NAMED_USER) not in names:
            raise ConfigurationError(
                f"links of {shown(name)} need jobs of that user in the trace, which has none; use newcomer, or "
                "check the name"
            )
        return names.index(name.removeprefix(NAMED_USER)) + 1
    quantile = LINK_USERS[name]
    if quantile is None:
        return 0
    recent = jobs.jobs[slice(*np.searchsorted(jobs.jobs.submit_s, (at_s - USE_S, at_s)))]
    recent = recent[recent.user > 0]
    users = np.unique(recent.user)
    if not len(users):
        raise ConfigurationError(
            f"links of a {name} user need users with jobs in the {USE_S // DAY_S} days before a window; the "
            "trace names none: use newcomer"
        )
    used_s = np.bincount(recent.user, weights=recent.nodes * recent.run_s)[users]
    return int(users[np.argsort(used_s, kind="stable")[round(quantile * (len(users) - 1))]])
