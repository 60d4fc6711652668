"""Study: everything that determines an evaluation, and how its windows are played."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

import mirage
from mirage.executors.executor import Executor
from mirage.policy.contract import Policy
from mirage.policy.registry import policy_named_by, policy_spec
from mirage.policy.view import Chain, View
from mirage.provision.chain import Link
from mirage.provision.compile_ahead import use
from mirage.provision.evaluation.candidate import NEVER, Candidate, WindowRun, window_seed
from mirage.provision.evaluation.episode import Episode, Scenario, play, warm_simulations
from mirage.provision.evaluation.protocol import Protocol
from mirage.provision.evaluation.second_thoughts import BankedLink, Followed
from mirage.sim.contract.job_labels import LabelBook
from mirage.sim.disciplines.registry import discipline_spec
from mirage.sim.simulation import Simulation
from mirage.source_digest import source_digest


@dataclass(frozen=True, slots=True)
class Study:
    """Which policies are tried out where, and how.

    Attributes:
        links: Sizes of the chains.
        candidates: The policies on trial.
        seed: Of all that is random.
        holds: Whether the outcomes of a link that is held are found, too: what ``oracle-holds`` needs.
    """

    scenario: Scenario
    protocol: Protocol
    links: tuple[Link, ...]
    candidates: tuple[Candidate, ...]
    seed: int = 0
    holds: bool = False

    @property
    def key(self) -> str:
        """Digest of all that determines a window but its time: studies with one key agree on windows at one time.

        When windows begin, how far apart they are and how many there are is not part of it. The code that plays them
        is, without its docstrings and comments: this module, the discipline, the policies, and what they import.
        """
        digest = hashlib.sha256()
        scenario = self.scenario
        for part in (
            mirage.__version__,
            np.__version__,
            scenario.cluster,
            scenario.discipline,
            scenario.settings,
            replace(self.protocol, begin_s=0, windows=0, every_s=0),
            self.links,
            self.candidates,
            self.seed,
            self.holds,
        ):
            digest.update(repr(part).encode())
        digest.update(scenario.jobs.jobs.tobytes())
        digest.update(LabelBook(scenario.jobs.table).codes.tobytes())
        modules = [__name__, discipline_spec(scenario.discipline).entry.partition(":")[0]]
        for candidate in self.candidates:
            digest.update(_content(candidate.policy) or _content(candidate.policy.partition(":")[2]))
            digest.update(_content(policy_named_by(candidate.policy) or ""))
            modules += codes_of(candidate)
        digest.update(source_digest(modules).encode())
        return digest.hexdigest()[:16]


def codes_of(candidate: Candidate) -> list[str]:
    """Modules that make a candidate, and those that make the policy it asks."""
    asked = policy_named_by(candidate.policy)
    specs = [candidate.spec, *([] if asked is None else [policy_spec(asked)])]
    return [module for spec in specs for module in (spec.entry.partition(":")[0], *spec.loads)]


def _content(named: str) -> bytes:
    """What stands in the file that a policy or its parameter names, such as a model; nothing where none is named."""
    path = Path(named).expanduser() if named else None
    return path.read_bytes() if path is not None and path.is_file() else b""


@dataclass(frozen=True, slots=True)
class Trial:
    """One window with one size of link: all that could have become of it, and what each candidate chose.

    Attributes:
        episode: Decisions and their outcomes.
        chosen: Candidate's key → index of the decision at which it submitted.
        asked: Candidate's key → how often it was asked.
        followed: Key of a candidate that thinks again → what became of its link; without those that never submitted.
        held_outcome_s: Shape (k,): outcomes of a link that was submitted early, held, and let go at each decision; None
            where they were not asked for.
    """

    episode: Episode
    chosen: dict[str, int]
    asked: dict[str, int]
    followed: dict[str, Followed] = field(default_factory=dict)
    held_outcome_s: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
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
        values["link"] = Link(**values["link"])
        followed = {key: Followed(**one) for key, one in plain["followed"].items()}
        held_s = plain["held_outcome_s"]
        return cls(
            Episode(**values), plain["chosen"], plain["asked"], followed, None if held_s is None else tuple(held_s)
        )


Run = Callable[[Policy, bool], WindowRun]
"""Makes what asks a policy in one window; told whether the policy thinks again."""


def window_run(policy: Policy, thinks_again: bool) -> WindowRun:
    """What asks a policy until it submits, and on and on where it thinks again."""
    return WindowRun(policy, thinks_again=thinks_again)


class Player:
    """Plays windows of a study in ascending order; one replay of the trace serves them all."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._window = 0
        self._simulations = warm_simulations(study.scenario, study.protocol, self._windows())

    def _windows(self) -> Iterator[int]:
        while True:
            yield self._window

    def play(self, window: int) -> tuple[Trial, ...]:
        """The trials of a window, one for each size of link; windows must ascend from call to call."""
        return tuple(self.trial(sim, link, window) for link, sim in self.worlds(window))

    def worlds(self, window: int) -> Iterator[tuple[Link, Simulation]]:
        """For each size of link a simulation of its own, just before the predecessor of a window is submitted.

        Windows must ascend from call to call.
        """
        self._window = window
        _, sim = next(self._simulations)
        last = len(self.study.links) - 1
        for k, link in enumerate(self.study.links):
            yield link, sim if k == last else sim.fork()

    def trial(self, sim: Simulation, link: Link, window: int, run: Run = window_run) -> Trial:
        """The trial of one world of a window, which is used up.

        Args:
            run: Makes what asks a policy.
        """
        study = self.study
        seed = window_seed(study.seed, link.nodes, study.protocol.submits_s(window))
        runs = {
            candidate.key: run(candidate.make(study.scenario, seed), candidate.thinks_again)
            for candidate in study.candidates
        }
        banked = BankedLink() if study.holds else None

        def ask(view: View) -> int | None:
            named_s = [run.ask(view) for run in runs.values()]
            return min((moment_s for moment_s in named_s if moment_s is not None), default=None)

        def look(sim: Simulation, chain: Chain) -> None:
            for run in runs.values():
                run.look(sim, chain)
            if banked is not None:
                banked.look(sim, chain)

        episode = play(sim, study.protocol, link, window, ask if runs else None, look)
        return Trial(
            episode,
            {key: _place(episode, run) for key, run in runs.items()},
            {key: run.asked for key, run in runs.items()},
            {key: run.followed for key, run in runs.items() if run.followed is not None},
            None if banked is None else tuple(banked.outcome_s),
        )


def play_windows(study: Study, windows: Sequence[int], executor: Executor) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Play windows and hand each over as it is done, in any order.

    Windows are handed out in ascending order, so that each process replays the trace once however they fall. What
    becomes of a window does not depend on who plays it.

    Args:
        study: What to play.
        windows: Ascending.
        executor: Who plays.
    """
    if len(windows) > 1:
        use(study.scenario.discipline)  # compiled once here, where it is told, rather than once by each worker
    return executor(_player, study, windows)


def _player(study: Study) -> Callable[[int], tuple[int, tuple[Trial, ...]]]:
    player = Player(study)
    return lambda window: (window, player.play(window))


def _place(episode: Episode, run: WindowRun) -> int:
    """The decision at which a candidate submitted; the last where it never did."""
    if run.submitted_s == NEVER:
        return len(episode.decisions_s) - 1
    return int(np.searchsorted(episode.decisions_s, run.submitted_s))
