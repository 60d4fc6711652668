"""``what-if`` in the windows of the test months: the reference of all learned methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.learn.training.folds import month_begin_s, shifted
from mirage.learn.training.trained_policy import WHAT_IF
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.link_size import LinkSize
from mirage.study.executors.executor import Executor


def play_what_if(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    links: Sequence[LinkSize],
    months: Sequence[str],
    costs: Sequence[Cost],
    *,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    resume_dir: Path | None = None,
) -> dict[int, tuple[WindowTrial, ...]]:
    """Plays ``what-if`` in the windows from the first to the last of some months.

    Args:
        scenario: The cluster, its queue and the trace of the data.
        protocol: The protocol of the data, with all its windows.
        links: Link sizes.
        months: Test months, in any order.
        costs: Every cost is played.
        seed: The seed of the data and of the futures.
        executor: Plays the windows; None for this process.
        progress: Called as windows are finished.
        resume_dir: Where finished windows are stored.

    Returns:
        Nodes of a link → windows.

    Raises:
        ConfigurationError: No window lies in these months, or the data were made of another trace.
    """
    begin_s, end_s = month_begin_s(min(months)), month_begin_s(shifted(max(months), 1))
    inside = [window for window in range(protocol.windows) if begin_s <= protocol.submits_s(window) < end_s]
    if not inside:
        raise ConfigurationError(f"no window of the data lies in {', '.join(months)}")
    first_s = protocol.begin_s + inside[0] * protocol.every_s
    within = replace(protocol, begin_s=first_s, windows=len(inside))
    found = evaluate(
        scenario,
        within,
        links,
        [WHAT_IF],
        costs,
        seed=seed,
        executor=executor,
        progress=progress,
        resume_dir=resume_dir,
    )
    return found.trials
