"""Training of our own network by imitation, then policy gradients; resumable after a kill.

The gradients are PPO's (Schulman et al. 2017) with an input-dependent baseline in place of a critic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mirage.array_types import Floats
from mirage.dag.decima.deciders import decide_own
from mirage.dag.decima.networks.layers import Perceptrons
from mirage.dag.decima.training.rollouts import (
    DECISIONS,
    Record,
    TrainingSetting,
    advantages,
    clear,
    decided_at,
    empty_record,
    net_space,
    play_episode,
)
from mirage.dag.decima.training.torch_network import (
    DecisionBatch,
    GraphNetwork,
    batches,
    load_checkpoint,
    save_checkpoint,
)
from mirage.dag.schedulers.stage_schedulers import make_scheduler, scheduler_spec
from mirage.dag.workload.templates import JobTemplate, templates_digest
from mirage.errors import ConfigurationError
from mirage.source_digest import source_digest

SETTINGS = (
    TrainingSetting(50, 100, 25.0, 250, 300.0, "capped:0.25:1.5"),
    TrainingSetting(10, 40, 25.0, 1000, 1500.0, "capped:0:2"),
)
"""The training clusters: one with headroom, and one with far more work than it can do."""

FIRST_SEQUENCE = 100_000
"""Seeds of the arrival sequences of trainings start here; those of evaluations are below."""

_SEQUENCES = 2**32
"""Number of arrival sequences of a training before those of another seed would begin."""

_MOST_SEED = 2**63  # PyTorch accepts no larger ones
_MOST_GRADIENT = 0.5
_MOST_DECISIONS, _MOST_ROWS = 60_000, 2_500_000


@dataclass(frozen=True, slots=True)
class DecimaTrainingPlan:
    """The plan of a training.

    Attributes:
        seed: Of everything: the first network, arrivals and durations, and all draws.
        imitations: Steps of imitation, each over one episode of each setting.
        iterations: Steps of policy gradients.
        rollouts: Of one arrival sequence.
        epochs: Passes over the decisions of an iteration.
        batch: Decisions of a gradient.
        learning_rate: Of Adam, at the start; it falls to a tenth.
        clip: Largest relative change of a decision's probability in an iteration.
        entropy: Weight of the entropy, at the start; it falls to 0.
        settings: The kinds of episodes to train on.
    """

    seed: int = 1
    imitations: int = 40
    iterations: int = 300
    rollouts: int = 8
    epochs: int = 3
    batch: int = 1000
    learning_rate: float = 1e-3
    clip: float = 0.2
    entropy: float = 0.003
    settings: tuple[TrainingSetting, ...] = SETTINGS


@dataclass(slots=True)
class DecimaTrainingProgress:
    """The progress of a training, which a checkpoint stores with the tensors.

    Attributes:
        step: Steps done, those of imitation included.
        spent_s: Seconds spent.
        jobs: Jobs so far, those of every rollout.
        curve: Per step its figures by name.
    """

    step: int = 0
    spent_s: float = 0.0
    jobs: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)


def train(
    templates: Sequence[JobTemplate],
    plan: DecimaTrainingPlan,
    checkpoint: Path,
    *,
    budget_s: float,
    now: Callable[[], float] = time.monotonic,
    report: Callable[[dict[str, float]], None] = lambda figures: None,
) -> tuple[Perceptrons, DecimaTrainingProgress]:
    """Trains a network, or resumes from a checkpoint of the same plan.

    Args:
        templates: Kinds of jobs.
        plan: The plan of the training.
        checkpoint: Written after every step.
        budget_s: Stops after the step in which this is spent, including the time before a resumption.
        now: Clock, seconds.
        report: Called with the figures of each step, and with the step after which a training resumes.

    Raises:
        ConfigurationError: The checkpoint belongs to a training with another plan, other jobs or other code, or another
            process writes it at the same time.
        ModelFileError: It is not a checkpoint.
    """
    torch.manual_seed(plan.seed % _MOST_SEED)
    torch.set_num_threads(1)
    network = GraphNetwork()
    optimizer = torch.optim.Adam(network.parameters(), plan.learning_rate)
    whole_plan = _whole_plan(templates, plan)
    written = _version(checkpoint)
    held = load_checkpoint(checkpoint, network, optimizer, whole_plan)
    progress = DecimaTrainingProgress(**held["progress"]) if held else DecimaTrainingProgress()
    if held:
        report({"resumed_after_step": progress.step})
    record = empty_record(_MOST_DECISIONS, _MOST_ROWS)
    while progress.step < plan.imitations + plan.iterations and progress.spent_s < budget_s:
        begun = now()
        random = np.random.default_rng([plan.seed, progress.step])
        torch.manual_seed((plan.seed * 1_000_003 + progress.step) % _MOST_SEED)
        if progress.step < plan.imitations:
            figures = _imitate(templates, plan, progress.step, network, optimizer, record)
        else:
            figures = _improve(templates, plan, progress.step, network, optimizer, record, random)
        times = 1 if progress.step < plan.imitations else plan.rollouts
        progress.jobs += times * sum(setting.jobs for setting in plan.settings)
        progress.step += 1
        progress.spent_s += now() - begun
        progress.curve.append({"step": progress.step, "spent_s": round(progress.spent_s, 1), **figures})
        if _version(checkpoint) not in (None, written):
            raise ConfigurationError(
                f"another training writes {checkpoint}, too; wait for its end, or name another file with --resume"
            )
        save_checkpoint(checkpoint, network, optimizer, {"plan": whole_plan, "progress": asdict(progress)})
        written = _version(checkpoint)
        report(progress.curve[-1])
    return network.layers(), progress


def _version(checkpoint: Path) -> tuple[int, int] | None:
    """Returns what distinguishes a checkpoint from the next one; None without a file."""
    if not checkpoint.exists():
        return None
    found = checkpoint.stat()
    return found.st_ino, found.st_mtime_ns


def sequence_of(seed: int, step: int, place: int) -> int:
    """The seed of the arrivals and durations of a step, in one of the plan's settings.

    Trainings with different seeds share none. The 1 is the seed of the network that ships.
    """
    return FIRST_SEQUENCE + (seed ^ 1) * _SEQUENCES + 100 * step + place


def _whole_plan(templates: Sequence[JobTemplate], plan: DecimaTrainingPlan) -> dict[str, Any]:
    """All that determines the course of a training: the plan, the jobs, and the code."""
    imitated = {scheduler_spec(setting.imitated.partition(":")[0]).entry for setting in plan.settings}
    modules = sorted({__name__, *(entry.partition(":")[0] for entry in imitated)})
    return {
        **asdict(plan),
        "profiles": templates_digest(templates),
        "version of the code": source_digest(modules)[:16],
        "torch": torch.__version__,
    }


def _imitate(
    templates: Sequence[JobTemplate],
    plan: DecimaTrainingPlan,
    step: int,
    network: GraphNetwork,
    optimizer: torch.optim.Optimizer,
    record: Record,
) -> dict[str, float]:
    """Learns the decisions of each setting's heuristic in one episode of each."""
    clear(record)
    space = net_space(network.layers())
    for place, setting in enumerate(plan.settings):
        imitated = make_scheduler(setting.imitated)
        sequence = sequence_of(plan.seed, step, place)
        arguments = (imitated.decider, imitated.parameters, space, record, setting.recorded_of_1000)
        play_episode(templates, setting, sequence, *arguments)
    losses = []
    pieces = batches(record, 250)
    for _ in range(3):
        for place in torch.randperm(len(pieces)).tolist():
            loss = -network(pieces[place])[0].mean()
            _descend(network, optimizer, loss, plan.learning_rate * 3)
            losses.append(loss.item())
    return {"imitation_loss": round(float(np.mean(losses[-len(pieces) :])), 4)}


def _improve(
    templates: Sequence[JobTemplate],
    plan: DecimaTrainingPlan,
    step: int,
    network: GraphNetwork,
    optimizer: torch.optim.Optimizer,
    record: Record,
    random: np.random.Generator,
) -> dict[str, float]:
    """Rollouts of one sequence of each setting, and PPO on them."""
    clear(record)
    space = net_space(network.layers())
    figures, better = {}, []
    for place, setting in enumerate(plan.settings):
        sequence = sequence_of(plan.seed, step, place)
        jct_s, gained = _rollouts(templates, setting, sequence, plan.rollouts, space, record, random)
        figures[f"jct_{setting.executors}_s"] = round(jct_s, 2)
        better.append(gained)
    gain = torch.from_numpy(np.concatenate(better)).float()
    done = (step - plan.imitations) / max(1, plan.iterations)
    rate = plan.learning_rate * (1 - 0.9 * done)
    figures |= _ascend(network, optimizer, batches(record, plan.batch), gain, plan, rate, plan.entropy * (1 - done))
    return figures | {"decisions": float(record.size[DECISIONS])}


def _rollouts(
    templates: Sequence[JobTemplate],
    setting: TrainingSetting,
    sequence: int,
    count: int,
    space: Floats,
    record: Record,
    random: np.random.Generator,
) -> tuple[float, Floats]:
    """Mean completion time of the rollouts, and advantages divided by their spread."""
    ends, times, arrival_ms = [], [], np.zeros(0, np.int64)
    for _ in range(count):
        space[0] = random.integers(2**31)
        first = int(record.size[DECISIONS])
        arrival_ms, end_ms = play_episode(
            templates, setting, sequence, decide_own, space, space, record, setting.recorded_of_1000
        )
        ends.append(end_ms)
        times.append(decided_at(record, first))
    gained = np.concatenate(advantages(ends, arrival_ms, times, setting.horizon_s))
    jct_s = float(np.mean([ends_ms - arrival_ms for ends_ms in ends])) / 1000
    return jct_s, gained / (gained.std() + 1e-9)


def _ascend(
    network: GraphNetwork,
    optimizer: torch.optim.Optimizer,
    pieces: Sequence[DecisionBatch],
    gain: torch.Tensor,
    plan: DecimaTrainingPlan,
    rate: float,
    entropy_weight: float,
) -> dict[str, float]:
    """Clipped policy gradients."""
    with torch.no_grad():
        before = [network(piece)[0] for piece in pieces]
    gains = gain.split([len(piece.picked) for piece in pieces])
    moved, entropies = [], []
    for _ in range(plan.epochs):
        for place in torch.randperm(len(pieces)).tolist():
            now, entropy = network(pieces[place])
            ratio = (now - before[place]).exp()
            clipped = ratio.clamp(1 - plan.clip, 1 + plan.clip)
            loss = -torch.minimum(ratio * gains[place], clipped * gains[place]).mean()
            _descend(network, optimizer, loss - entropy_weight * entropy.mean(), rate)
            moved.append((before[place] - now).mean().item())
            entropies.append(entropy.mean().item())
    return {"kl": round(moved[-1], 5), "entropy": round(float(np.mean(entropies)), 4)}


def _descend(network: GraphNetwork, optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), _MOST_GRADIENT)
    optimizer.step()
