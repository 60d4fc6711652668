"""Comparison: methods trained before each month, all policies played in it, and judged.

models = train_models(ModelRecipe(data, data_key, card, settings), plan, folder / "models", executor)
comparison = judged(plan, play(setup, plan, models))

The judged policies are those that run: methods are played from their model files, as an agent makes them, not read off
the labels of their training data. Gains under load, medium and heavy together, are shares of the gap: the cost of
hand-overs of ``reactive`` minus that of the hindsight oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.array_types import Floats
from mirage.learn.training.comparison.claims import Claim, claims
from mirage.learn.training.comparison.comparison_plan import OURS, PUBLISHED, ComparisonPlan, kind_of
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import HINDSIGHT, Candidate
from mirage.provision.evaluation.evaluate import Evaluation, assess, compared_with
from mirage.provision.evaluation.evaluation_study import WindowTrial
from mirage.provision.evaluation.oracle import REACTIVE, oracle, reactive
from mirage.provision.evaluation.paired import ComparedWindows, Difference, corrected_in_table, differences, verdict_of
from mirage.provision.evaluation.play_study import Trials
from mirage.provision.evaluation.policy_outcome import PolicyOutcome
from mirage.provision.evaluation.policy_score import ALL, EvaluationRow, loads, outcome, row_of, score, submissions_s
from mirage.provision.link_size import LIGHT
from mirage.study.intervals import Interval, Stretches

LOADED = "medium and heavy"


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """The results of a comparison.

    Attributes:
        evaluation: Evaluation over all seeds.
        against_reactive: Every policy less ``reactive``, over all loads and months.
        seeds: Seed → rows over all loads of policies with randomness.
        claims: The claims of the paper's abstract for the published methods and ours, at the first cost.
        alike: Nodes of a link → groups of policies of one kind that acted alike in every window.
        under_load: Gains in medium and heavy load.
    """

    plan: ComparisonPlan
    evaluation: Evaluation
    against_reactive: tuple[Difference, ...]
    seeds: dict[int, tuple[EvaluationRow, ...]]
    claims: tuple[Claim, ...]
    alike: dict[int, tuple[tuple[str, ...], ...]]
    under_load: tuple[UnderLoad, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        found = self.evaluation
        return {
            "rows": [row.to_json() for row in found.rows],
            "months": [row.to_json() for row in found.months],
            "differences": [one.to_json() for one in (*found.differences, *self.against_reactive)],
            "seeds": {str(seed): [row.to_json() for row in rows] for seed, rows in self.seeds.items()},
            "claims": [claim.to_json() for claim in self.claims],
            "under_load": [one.to_json() for one in self.under_load],
            "intervals": found.intervals,
        }


def judged(plan: ComparisonPlan, trials: Trials, against: str | None = None) -> MethodComparison:
    """Judges the windows that were played.

    Args:
        plan: The plan of the comparison.
        trials: Windows from ``play``, seed by seed.
        against: The policy that all are compared with; None for ``what-if``, where it was played.

    Raises:
        ConfigurationError: ``against`` is not among the compared policies.
    """
    names, costs = plan.names, plan.costs
    base = compared_with(names, against)
    evaluation = assess(trials, names, costs, against=base)
    if REACTIVE in names:
        paired = [one for of_link in trials.values() for one in differences(of_link, names, REACTIVE, costs)]
        less_reactive = tuple(one for one in paired if (one.load, one.month) == (ALL, ALL))
    else:
        less_reactive = ()
    learned = [name for name in names if kind_of(name) in (PUBLISHED, OURS)]
    claimed = [claim for of_link in trials.values() for claim in claims(of_link, learned, costs[0])]
    alike = {nodes: _alike(plan, nodes, trials) for nodes in trials}
    loaded = [one for of_link in trials.values() for one in under_load(of_link, names, base, costs)]
    return MethodComparison(
        plan, evaluation, less_reactive, _by_seed(plan, trials), tuple(claimed), alike, tuple(loaded)
    )


def _by_seed(plan: ComparisonPlan, trials: Trials) -> dict[int, tuple[EvaluationRow, ...]]:
    """The rows of each seed, for policies with randomness."""
    random = [*(p for p in plan.policies if p not in HINDSIGHT and "seed" in Candidate(p).spec.needs), *plan.methods]
    shown = [name for name in plan.names if name in random]
    found = {}
    for k, seed in enumerate(plan.seeds):
        rows = []
        for of_link in trials.values():
            each = len(of_link) // len(plan.seeds)
            rows += [r for r in score(of_link[k * each : (k + 1) * each], shown, plan.costs) if r.load == ALL]
        found[seed] = tuple(rows)
    return found


def _alike(plan: ComparisonPlan, nodes: int, trials: Trials) -> tuple[tuple[str, ...], ...]:
    groups: dict[tuple[str, bytes], list[str]] = {}
    for name in plan.names:
        results = [outcome(name, trials[nodes], cost) for cost in plan.costs]
        done = b"".join(np.stack([r.interruption_s, r.overlap_s]).tobytes() for r in results)
        groups.setdefault((kind_of(name), done), []).append(name)
    return tuple(tuple(group) for group in groups.values())


@dataclass(frozen=True, slots=True)
class UnderLoad:
    """Gain of one policy at one link size and one cost.

    Attributes:
        row: Row of the windows of medium and heavy load.
        more: Share of the gap by which it costs less there than the reference policy; None without one.
        more_95: 95 % interval of the saving, paired by window, over the gap of these windows; None with too few.
        more_verdict: ``better`` or ``worse`` than the reference policy there beyond doubt; otherwise empty.
        more_of_all: The share over all windows, those of light load included.
    """

    row: EvaluationRow
    more: float | None
    more_95: Interval | None
    more_verdict: str
    more_of_all: float | None
    more_of_all_95: Interval | None
    more_of_all_verdict: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def under_load(
    trials: Sequence[WindowTrial], policies: Sequence[str], against: str | None, costs: Sequence[Cost]
) -> list[UnderLoad]:
    """Gains of policies for one link size: cost × policy; costs without a gap are left out.

    Args:
        trials: Windows of one link size.
        policies: Policies in the order of the results.
        against: The reference policy, if any.
        costs: Costs of hours of interruption and overlap.
    """
    stretches, loaded = Stretches.of(submissions_s(trials)), loads(trials) != LIGHT
    nodes, every = trials[0].episode.link.nodes, np.ones_like(loaded)
    tables = [ComparedWindows(trials, members, stretches) for members in (loaded, every)]
    found = []
    for cost in costs:
        bounds = reactive(trials), oracle(trials, cost)
        gap = bounds[0].costs(cost) - bounds[1].costs(cost)
        if gap[loaded].sum() <= 0:
            continue
        results = [outcome(policy, trials, cost) for policy in policies]
        base = None if against is None else outcome(against, trials, cost)
        shares = [_shares(table, results, base, cost, gap) for table in tables]
        for result, *of_both in zip(results, *shares):
            row = row_of(result, bounds, cost, nodes, LOADED, loaded, stretches)
            found.append(UnderLoad(row, *of_both[0], *of_both[1]))
    return found


_Share = tuple[float | None, Interval | None, str]


def _shares(
    table: ComparedWindows, results: Sequence[PolicyOutcome], base: PolicyOutcome | None, cost: Cost, gap: Floats
) -> list[_Share]:
    """Savings against a reference as shares of the gap, with intervals and verdicts."""
    if base is None:
        return [(None, None, "")] * len(results)
    tested = [None if result.policy == base.policy else table.test(result, base, cost) for result in results]
    p_corrected = corrected_in_table([(r, None if test is None else test.p_value) for r, test in zip(results, tested)])
    mean = float(gap[table.members].mean())
    found: list[_Share] = []
    for result, test, p in zip(results, tested, p_corrected):
        if result.policy == base.policy:
            found.append((None, None, ""))
            continue
        more = float((base.costs(cost) - result.costs(cost))[table.members].mean())
        interval = None if test is None else (-test.interval[1] / mean, -test.interval[0] / mean)
        found.append((more / mean, interval, verdict_of(-more, p)))
    return found
