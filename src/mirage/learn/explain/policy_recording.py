"""Plays a policy in the windows of a data set, and records its answer at every decision.

Decisions after its submission are included: a tree that submits later than the policy reaches decisions that the
policy never does, and should give the answer that the policy would have given there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mirage.errors import ConfigurationError
from mirage.policy.contract import Policy, plan_of
from mirage.policy.cost import Cost
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import NEVER, WindowRun, candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import check_windows, evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Player, Study, WindowTrial, window_run
from mirage.provision.link_size import LinkSize
from mirage.sim.simulation import Simulation
from mirage.study.executors.executor import Executor
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.play_trials import Progress, play_trials

SubmitsByTime = dict[int, bool]
"""Time of a decision → whether the policy submits."""


@dataclass(slots=True)
class Recorder(WindowRun):
    """A candidate in one window that answers at every decision, also after it has submitted.

    Attributes:
        submits: Its answers, by time.
    """

    submits: SubmitsByTime = field(default_factory=dict)

    def on_view(self, view: View) -> int | None:
        """Decides as in an evaluation, and at every further decision of the protocol."""
        chain = view.chain
        assert chain is not None
        calls_before = self.calls
        named_s = WindowRun.on_view(self, view)
        if (view.now_s - chain.started_s) % chain.step_s == 0:
            if self.calls > calls_before:
                self.submits[view.now_s] = self.submitted_s != NEVER
            else:
                self.submits[view.now_s] = plan_of(self.policy, view).submits
        return named_s


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A window with links of one size.

    Attributes:
        trial: The results of the policies.
        submits: The answers of the first policy at every decision.
    """

    trial: WindowTrial
    submits: SubmitsByTime


@dataclass(frozen=True, slots=True)
class Recording:
    """Windows by link size and by submission of the present link.

    Attributes:
        trials: The results of the policies.
        submits: The answers of the recorded policy at every decision.
    """

    trials: dict[int, dict[int, WindowTrial]]
    submits: dict[int, dict[int, SubmitsByTime]]


def recorded(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    links: Sequence[LinkSize],
    policies: Sequence[str],
    costs: Sequence[Cost],
    *,
    judged_s: int = 0,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Plays policies in the windows of a data set.

    Args:
        scenario: The cluster, its queue and the trace of the data.
        protocol: The protocol of the data.
        links: Link sizes.
        policies: The first is recorded, with the first of the costs.
        costs: Where policies are compared, those that weigh costs are played with each of them.
        judged_s: Policies are compared in windows with a present link submitted at this time or later; in earlier ones
            only the first is played.
        seed: The seed of the data.
        executor: Plays the windows; None for this process.
        progress: Called as windows are finished.

    Raises:
        UnknownName: A policy does not exist.
        ConfigurationError: A window lies outside the trace.
    """
    check_windows(scenario, protocol, links)
    compared = Study(scenario, protocol, tuple(links), tuple(candidates(list(policies), list(costs))), seed)
    for candidate in compared.candidates:
        candidate.make(scenario, seed)
    alone = replace(compared, candidates=compared.candidates[:1])
    windows = range(protocol.windows)
    early, late = ([w for w in windows if (protocol.submits_s(w) >= judged_s) == is_late] for is_late in (False, True))
    found = Recording({link.nodes: {} for link in links}, {link.nodes: {} for link in links})
    for study, of_study, before in ((alone, early, 0), (compared, late, len(early))):

        def report(done: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, len(windows))

        played = play_trials(_begin, study, of_study, executor=executor, progress=report)
        for of_link in (one for window in of_study for one in played.found[window]):
            episode = of_link.trial.episode
            found.trials[episode.link.nodes][episode.submitted_s] = of_link.trial
            found.submits[episode.link.nodes][episode.submitted_s] = of_link.submits
    return found


def played_since(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    links: Sequence[LinkSize],
    policy: str,
    costs: Sequence[Cost],
    *,
    since_s: int,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[int, dict[int, WindowTrial]]:
    """Nodes of a link → submission of the present link → the window as one policy played it.

    Args:
        since_s: Windows with a present link submitted at this time or later; for the others see ``recorded``.

    Raises:
        ConfigurationError: A window lies outside the trace, or none is left.
    """
    first = sum(protocol.submits_s(window) < since_s for window in range(protocol.windows))
    if first == protocol.windows:
        raise ConfigurationError("no window of the data is left to play")
    within = replace(protocol, begin_s=protocol.begin_s + first * protocol.every_s, windows=protocol.windows - first)
    found = evaluate(
        scenario, within, links, [policy], costs, seed=seed, executor=executor, progress=progress, against=policy
    )
    return {nodes: {trial.episode.submitted_s: trial for trial in trials} for nodes, trials in found.trials.items()}


@sent_to_jobs
def _begin(study: Study) -> Callable[[int], tuple[int, tuple[RecordedWindow, ...]]]:
    player = Player(study)

    def play(window: int) -> tuple[int, tuple[RecordedWindow, ...]]:
        return window, tuple(_played(player, link, sim, window) for link, sim in player.worlds(window))

    return play


def _played(player: Player, link: LinkSize, sim: Simulation, window: int) -> RecordedWindow:
    """Plays a window with links of one size; the first candidate is recorded."""
    recorder: list[Recorder] = []

    def run(policy: Policy, revises: bool) -> WindowRun:
        if recorder:
            return window_run(policy, revises)
        recorder.append(Recorder(policy))
        return recorder[0]

    trial = player.trial(sim, link, window, run)
    return RecordedWindow(trial, recorder[0].submits)
