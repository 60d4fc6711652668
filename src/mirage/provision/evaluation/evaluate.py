"""Evaluation of policies by the hand-overs they would have made in a trace.

evaluation = evaluate(scenario, EvaluationProtocol.warm(begin_s), [LinkSize(1)], ["average", "what-if"], [Cost(3, 1)])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.duration import format_duration
from mirage.errors import ConfigurationError, quantity, shown
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import ORACLE_HOLDS, candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.paired import Difference, differences
from mirage.provision.evaluation.play_study import Trials, play_study
from mirage.provision.evaluation.policy_score import EvaluationRow, score, score_by_month, submissions_s
from mirage.provision.link_size import LinkSize
from mirage.sim.workload import link_record, misfits
from mirage.study.executors.executor import Executor
from mirage.study.intervals import Stretches
from mirage.study.play_trials import Progress
from mirage.whole_numbers import whole


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation.

    Attributes:
        trials: Nodes of a link → its trials by window.
        rows: Policy × link × load × cost, in that nesting from the inside out.
        policies: In the order requested.
        reused: Number of windows that had been played before.
        intervals: How the 95 % intervals were made, in words.
        months: The rows of all loads by calendar month: month × cost × policy for each link.
        differences: Every policy against one of them; empty if there is no such policy.
    """

    trials: Trials
    rows: tuple[EvaluationRow, ...]
    policies: tuple[str, ...]
    costs: tuple[Cost, ...]
    reused: int
    intervals: str
    months: tuple[EvaluationRow, ...] = ()
    differences: tuple[Difference, ...] = ()


def evaluate(
    scenario: Scenario,
    protocol: EvaluationProtocol,
    links: Sequence[LinkSize],
    policies: Sequence[str],
    costs: Sequence[Cost] = (Cost(),),
    *,
    seed: int = 0,
    executor: Executor | None = None,
    progress: Progress | None = None,
    resume_dir: str | Path | None = None,
    against: str | None = None,
    private_jobs: bool = False,
) -> Evaluation:
    """Evaluate policies on every window of a trace.

    The same seed gives the same result, whichever executor runs it and however often the evaluation was stopped and
    resumed.

    Args:
        scenario: The cluster, its queue and the trace.
        protocol: The windows and how they are played.
        links: Sizes of the chains.
        policies: By name. Of the bounds, ``oracle`` is the best in hindsight, ``oracle-holds`` the best with second
            thoughts, ``exact-wait`` knows the wait of a link submitted now, ``true-run-times`` is ``what-if`` with
            the true run times of jobs.
        costs: Cost of an hour of interruption and of overlap; policies that weigh costs are created once for each.
        seed: Of the policies.
        executor: Runs the windows; None for this process.
        progress: Called after every window.
        resume_dir: Where results are stored as they arrive, and read at the start: windows at the same time, of this
            study or another of the same scenario, links, candidates, seed and steps.
        against: The policy to compare all others with, window by window; by default the ``what-if`` among them.
        private_jobs: Whether policies see only the jobs of the user of the links, as with ``PrivateData=jobs``. Bounds,
            and policies that compute what Slurm itself would print, still know all jobs.

    Raises:
        UnknownName: A policy or discipline is unknown.
        ConfigurationError: An argument has another type, no link or no cost is given, a policy's parameter is
            invalid, a window lies outside the trace, ``against`` is not among the policies, or jobs are private and
            the trace does not name their users.
    """
    if not isinstance(scenario, Scenario) or not isinstance(protocol, EvaluationProtocol):
        raise ConfigurationError(
            f"give a Scenario and an EvaluationProtocol, got {type(scenario).__name__} and {type(protocol).__name__}"
        )
    for given, kind in ((links, LinkSize), (policies, str), (costs, Cost)):
        if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, kind) for one in given):
            raise ConfigurationError(
                "give lists of links, of names of policies and of costs, such as [LinkSize(1)], ['what-if'], [Cost()]; "
                f"got {shown(given)}"
            )
    if not (executor is None or callable(executor)):
        raise ConfigurationError(f"the executor must be an object, such as LocalProcesses(2), got {shown(executor)}")
    if not links or not costs:
        raise ConfigurationError("give a link and a cost at least: [LinkSize(1)], [Cost()]")
    check_windows(scenario, protocol, links)
    if private_jobs:
        _check_users(scenario)
    compared_with(policies, against)
    if (seed := whole("seed", seed)) < 0:
        raise ConfigurationError(f"seed is {seed}; give 0 or more")
    tried = tuple(candidates(list(policies), list(costs), private=private_jobs))
    study = Study(scenario, protocol, tuple(links), tried, seed, ORACLE_HOLDS in policies)
    trials, reused = play_study(study, None if resume_dir is None else Path(resume_dir), executor, progress)
    return assess(trials, policies, costs, reused, against)


def assess(
    trials: Trials,
    policies: Sequence[str],
    costs: Sequence[Cost],
    reused: int = 0,
    against: str | None = None,
) -> Evaluation:
    """Score trials that have been played.

    Raises:
        ConfigurationError: ``against`` is not among the policies.
    """
    shown = tuple(dict.fromkeys(policies)) or (REACTIVE,)
    rows = [row for of_link in trials.values() for row in score(of_link, shown, costs)]
    stretches = Stretches.of(submissions_s(next(iter(trials.values()))))
    months = [row for of_link in trials.values() for row in score_by_month(of_link, shown, costs)]
    base = compared_with(shown, against)
    paired = [d for of_link in trials.values() for d in (differences(of_link, shown, base, costs) if base else ())]
    return Evaluation(trials, tuple(rows), shown, tuple(costs), reused, stretches.words, tuple(months), tuple(paired))


def compared_with(policies: Sequence[str], against: str | None) -> str | None:
    """Returns the policy to compare the others with.

    It is the policy ``against``, otherwise the first ``what-if``; None if there is none.

    Raises:
        ConfigurationError: ``against`` is not among the policies.
    """
    if against is None:
        return next((policy for policy in policies if policy.partition(":")[0] == "what-if"), None)
    if against not in policies:
        raise ConfigurationError(f"cannot compare with {against!r}, which is not judged; judged: {', '.join(policies)}")
    return against


def _check_users(scenario: Scenario) -> None:
    unknown = int((scenario.jobs.jobs.user <= 0).sum())
    if unknown:
        raise ConfigurationError(
            f"{unknown} of {len(scenario.jobs.jobs)} jobs of the trace name no user, so it is unknown which jobs are "
            "the user's own; use a trace with users, or leave out --private-jobs"
        )


def check_windows(scenario: Scenario, protocol: EvaluationProtocol, links: Sequence[LinkSize]) -> None:
    """Check that an evaluation can be played.

    Raises:
        ConfigurationError: No windows, no links, two links of one size, a link that the cluster cannot run, or a link
            or a window beyond the trace.
    """
    if protocol.windows < 1 or protocol.step_s < 1 or protocol.every_s < 1 or not links:
        raise ConfigurationError("an evaluation needs at least one window, one size of link, and steps of a second")
    first_s, last_s = check_links(scenario, links, protocol.step_s)
    if protocol.submits_s(0) - protocol.early_s(links) < first_s:
        first_link_s = protocol.begin_s - protocol.early_s(links)
        remedy = "a later --start, or a smaller --hand-over" if protocol.early_s(links) else "a later --start"
        raise ConfigurationError(
            f"the first window begins before the trace: {dates_and_jobs(first_link_s, first_s, last_s)}; give {remedy}"
        )
    if protocol.submits_s(protocol.windows - 1) > last_s:
        fitting = max((last_s - protocol.submits_s(0)) // protocol.every_s + 1, 0)
        when = dates_and_jobs(protocol.submits_s(protocol.windows - 1), first_s, last_s)
        room_s = last_s - first_s - protocol.lead_in_s - protocol.early_s(links)
        if room_s < 0:
            remedy = "a longer trace"
        elif room_s < (protocol.windows - 1) * protocol.every_s:
            remedy = "fewer --windows" if fitting else "an earlier --start and fewer --windows"
        else:
            remedy = "an earlier --start" + ", or fewer --windows" * bool(fitting)
        which = "the window" if protocol.windows == 1 else f"the last of {quantity(protocol.windows, 'window')}"
        raise ConfigurationError(
            f"{which} needs jobs after the last job of the trace: {when}; {windows_that_fit(fitting)}: give {remedy}"
        )


def check_links(scenario: Scenario, links: Sequence[LinkSize], step_s: int) -> tuple[int, int]:
    """Check that a cluster can run links.

    Returns the times of the first and last submission of its trace.

    Raises:
        ConfigurationError: Two links of one size, a link that the cluster cannot run, one longer than the trace, or one
            without a decision before its end.
    """
    sizes = [link.nodes for link in links]
    if len(set(sizes)) < len(sizes):
        twice = next(size for size in sizes if sizes.count(size) > 1)
        raise ConfigurationError(f"links of {quantity(twice, 'node')} are named twice; name each size once")
    for link in links:
        record = link_record(0, nodes=link.nodes, limit_s=link.limit_s)
        for reason in misfits(record, scenario.cluster).values():
            raise ConfigurationError(f"a link can never run: {reason}; give smaller links, or a larger cluster")
    scenario.jobs.require_jobs()
    submit_s = scenario.jobs.jobs.submit_s
    first_s, last_s = int(submit_s[0]), int(submit_s[-1])
    for link in links:
        if link.limit_s <= step_s:
            raise ConfigurationError(
                f"no policy decides in a link of {format_duration(link.limit_s)}, as the time between decisions is "
                f"{format_duration(step_s)}; give a shorter --step, or a longer --link-limit"
            )
        if link.limit_s > last_s - first_s:
            raise ConfigurationError(
                f"a link of {format_duration(link.limit_s)} is longer than the trace, in which jobs are submitted for "
                f"{format_duration(last_s - first_s)}; give a shorter --link-limit, or a longer trace"
            )
    return first_s, last_s


def windows_that_fit(windows: int) -> str:
    """The number of windows that fit into a trace, in words."""
    return f"{quantity(windows, 'window')} fit" if windows > 1 else f"{'one' if windows else 'no'} window fits"


def dates_and_jobs(instant_s: int, first_s: int, last_s: int) -> str:
    """An instant, and the times of the first and last submission, in words."""
    from mirage.trace.statistics.summary import iso_utc

    return f"{iso_utc(instant_s) or 'beyond the year 9999'}, jobs are submitted {iso_utc(first_s)} to {iso_utc(last_s)}"
