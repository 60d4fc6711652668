"""Study: everything that determines an evaluation, and how its windows are played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from mirage.policy.contract import Policy
from mirage.policy.policy_registry import policy_named_by, policy_spec
from mirage.policy.view import ChainView, View
from mirage.provision.evaluation.candidate import NEVER, Candidate, WindowRun, window_seed
from mirage.provision.evaluation.episode import Episode, Scenario, play, warm_simulations
from mirage.provision.evaluation.evaluation_protocol import NAMED_USER, EvaluationProtocol
from mirage.provision.evaluation.followed_link import BankedLink, Followed
from mirage.provision.link_size import LinkSize
from mirage.sim.contract.job_labels import LabelBook
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.simulation import Simulation
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.trial import code_key, key_of


@dataclass(frozen=True, slots=True)
class Study:
    """Which policies are evaluated on which scenario, and how.

    Attributes:
        links: Sizes of the chains.
        candidates: The policies to evaluate.
        seed: Of all random numbers.
        holds: Whether the outcomes of a held link are computed too, as ``oracle-holds`` needs.
    """

    scenario: Scenario
    protocol: EvaluationProtocol
    links: tuple[LinkSize, ...]
    candidates: tuple[Candidate, ...]
    seed: int = 0
    holds: bool = False

    @property
    def key(self) -> str:
        """Digest of all that determines a window except its time.

        Studies with the same key agree on windows at the same time. The key does not include when windows begin, their
        distance and their number. It includes the code that plays them, without its docstrings and comments: this
        module, the discipline, the policies, and what they import.
        """
        scenario, played = self.scenario, tuple(one for one in self.candidates if not one.members)
        modules = [__name__, discipline_spec(scenario.discipline).entry.partition(":")[0]]
        files: list[bytes] = []
        for candidate in played:
            files += files_of(candidate)
            modules += codes_of(candidate)
        return key_of(
            code_key(modules, "numpy", "numba"),
            *inputs_of(scenario, self.protocol.link_user),
            replace(self.protocol, begin_s=0, windows=0, every_s=0),
            self.links,
            played,
            self.seed,
            self.holds,
            *files,
        )


def inputs_of(scenario: Scenario, link_user: str) -> tuple[object, ...]:
    """Everything of a scenario that determines its chains, for a key.

    It includes recorded priorities, and names of users and accounts, of the trace where they are used: a scheduler may
    order jobs by the priorities; the owner of links is selected by name, and so are the users and accounts of a limit.
    """
    table = scenario.jobs.table
    by_name = link_user.startswith(NAMED_USER) or any(one.of_association for one in scenario.cluster.limits)
    recorded = scenario.settings.recorded_priority is not None
    return (
        scenario.cluster,
        scenario.discipline,
        scenario.settings,
        scenario.jobs.jobs.tobytes(),
        LabelBook(table).codes.tobytes(),
        table.priority.tobytes() if recorded else b"",
        (table.user.names, table.account.names) if by_name else (),
    )


def codes_of(candidate: Candidate) -> list[str]:
    """Modules of a candidate, and of the policy that it calls."""
    named = policy_named_by(candidate.policy)
    specs = [candidate.spec, *([] if named is None else [policy_spec(named)])]
    return [module for spec in specs for module in (spec.entry.partition(":")[0], *spec.loads)]


def files_of(candidate: Candidate) -> list[bytes]:
    """Contents of the files of a candidate, and of the policy that it calls."""
    called = policy_named_by(candidate.policy) or ""
    return [_content(candidate.policy) or _content(candidate.policy.partition(":")[2]), _content(called)]


def _content(named: str) -> bytes:
    """Content of the file named by a policy or its parameter; empty if none."""
    path = Path(named).expanduser() if named else None
    return path.read_bytes() if path is not None and path.is_file() else b""


@dataclass(frozen=True, slots=True)
class WindowTrial:
    """One window with one size of link: all possible outcomes, and each candidate's choice.

    Attributes:
        episode: Decisions and their outcomes.
        chosen: Candidate's key → index of the decision at which it submitted.
        calls: Candidate's key → number of its calls.
        followed: Key of a candidate that revises → history of its link; without those that never submitted.
        held_outcome_s: Shape (k,): outcomes of a link that was submitted early, held, and released at each decision;
            None if they were not requested.
        decided_by: Key of a candidate that chooses among others → the policy that it had chosen.
    """

    episode: Episode
    chosen: dict[str, int]
    calls: dict[str, int]
    followed: dict[str, Followed] = field(default_factory=dict)
    held_outcome_s: tuple[int, ...] | None = None
    decided_by: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the trial as plain values."""
        plain = asdict(self)
        for name in ("decisions_s", "outcome_s"):
            plain["episode"][name] = plain["episode"][name].tolist()
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        values = dict(plain["episode"])
        for name in ("decisions_s", "outcome_s"):
            values[name] = np.array(values[name], dtype=np.int64)
        values["link"] = LinkSize(**values["link"])
        followed = {key: Followed(**one) for key, one in plain["followed"].items()}
        held_s = plain["held_outcome_s"]
        return cls(
            Episode(**values), plain["chosen"], plain["calls"], followed, None if held_s is None else tuple(held_s)
        )


Run = Callable[[Policy, bool], WindowRun]
"""Creates the run of a policy in one window, from the policy and whether it revises."""


def window_run(policy: Policy, revises: bool) -> WindowRun:
    """Returns a run that calls a policy until it submits, or until the start if it revises."""
    return WindowRun(policy, revises=revises)


class Player:
    """Plays windows of a study in ascending order; one replay of the trace serves them all."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._window = 0
        early_s = study.protocol.early_s(study.links)
        self._simulations = warm_simulations(study.scenario, study.protocol, self._windows(), early_s)

    def _windows(self) -> Iterator[int]:
        while True:
            yield self._window

    def play(self, window: int) -> tuple[WindowTrial, ...]:
        """Play a window; returns a trial per size of link. Windows must ascend from call to call."""
        return tuple(self.trial(sim, link, window) for link, sim in self.worlds(window))

    def worlds(self, window: int) -> Iterator[tuple[LinkSize, Simulation]]:
        """Yields a simulation per size of link, before a window's first link is submitted.

        Each is independent. Windows must ascend from call to call.
        """
        self._window = window
        _, sim = next(self._simulations)
        last = len(self.study.links) - 1
        for k, link in enumerate(self.study.links):
            yield link, sim if k == last else sim.fork()

    def trial(self, sim: Simulation, link: LinkSize, window: int, run: Run = window_run) -> WindowTrial:
        """Play the trial of one simulation of a window, which is consumed.

        Args:
            run: Creates the run of a policy.
        """
        study = self.study
        seed = window_seed(study.seed, link.nodes, study.protocol.submits_s(window))
        runs = {
            candidate.key: run(candidate.make(study.scenario, seed), candidate.revises)
            for candidate in study.candidates
            if not candidate.members
        }
        banked = BankedLink() if study.holds else None

        def on_view(view: View) -> int | None:
            named_s = [run.on_view(view) for run in runs.values()]
            return min((moment_s for moment_s in named_s if moment_s is not None), default=None)

        def on_decision(sim: Simulation, chain: ChainView) -> None:
            for run in runs.values():
                run.on_decision(sim, chain)
            if banked is not None:
                banked.on_decision(sim, chain)

        episode = play(sim, study.protocol, link, window, on_view if runs else None, on_decision)
        return WindowTrial(
            episode,
            {key: _place(episode, run) for key, run in runs.items()},
            {key: run.calls for key, run in runs.items()},
            {key: run.followed for key, run in runs.items() if run.followed is not None},
            None if banked is None else tuple(banked.outcome_s),
        )


@sent_to_jobs
def begin(study: Study) -> Callable[[int], tuple[int, tuple[WindowTrial, ...]]]:
    """Returns the function that plays one window after another, in ascending order.

    One replay of the trace serves them all. The result of a window does not depend on the windows before it.
    """
    player = Player(study)
    return lambda window: (window, player.play(window))


def _place(episode: Episode, run: WindowRun) -> int:
    """Index of the decision at which a candidate submitted; the last if it never did."""
    if run.submitted_s == NEVER:
        return len(episode.decisions_s) - 1
    return int(np.searchsorted(episode.decisions_s, run.submitted_s))
