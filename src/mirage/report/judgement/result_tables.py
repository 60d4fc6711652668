"""Tables of results, for one link size and one cost ratio each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirage.errors import quantity
from mirage.learn.training.comparison.comparison_plan import BOUND, KINDS, kind_of
from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.provision.evaluation.candidate import ORACLE
from mirage.provision.evaluation.paired import Difference
from mirage.provision.evaluation.policy_score import ALL, EvaluationRow
from mirage.provision.link_size import LIGHT
from mirage.report.judgement.result_cells import both, difference, gap, markdown, named, percent, points, with_interval

Cells = tuple[list[str], list[list[str]]]
"""Column heads and rows."""


@dataclass(frozen=True, slots=True)
class ResultsView:
    """Results of a comparison for one link size at one cost ratio."""

    comparison: MethodComparison
    nodes: int
    ratio: float | None

    def rows(self, load: str = ALL, month: str = ALL) -> dict[str, EvaluationRow]:
        """Returns the row of each policy."""
        found = self.comparison.evaluation
        every = found.rows if month == ALL else found.months
        wanted = (self.nodes, self.ratio, load, month)
        return {r.policy: r for r in every if (r.link_nodes, r.cost_ratio, r.load, r.month) == wanted}

    def differences(self, load: str = ALL, month: str = ALL) -> dict[str, Difference]:
        """Returns each policy's difference from the reference policy."""
        wanted = (self.nodes, self.ratio, load, month)
        every = self.comparison.evaluation.differences
        return {d.policy: d for d in every if (d.link_nodes, d.cost_ratio, d.load, d.month) == wanted}

    @property
    def against(self) -> str | None:
        """The reference policy, if any."""
        return next((d.against for d in self.comparison.evaluation.differences), None)

    @property
    def months(self) -> list[str]:
        """Months with windows, in order."""
        return sorted({row.month for row in self.comparison.evaluation.months})

    def groups(self, is_wanted: Callable[[str], bool] = lambda _: True) -> list[tuple[str, tuple[str, ...]]]:
        """Returns kind and names of policies that share a row."""
        groups = [tuple(name for name in group if is_wanted(name)) for group in self.comparison.alike[self.nodes]]
        return [(kind_of(group[0]), group) for group in sorted(filter(None, groups), key=_place)]


def main_cells(view: ResultsView, load: str = ALL) -> Cells:
    """Returns the main table, of all windows or of one load class.

    In light load, hours above the oracle replace the gap closed.
    """
    rows, paired = view.rows(load), view.differences(load)
    oracle = rows.get(ORACLE)
    in_hours = load == LIGHT
    last = ([f"cost minus that of `{ORACLE}`, h"] if oracle else []) if in_hours else ["gap closed"]
    heads = ["", "policy", "interruption / overlap, h", "without interruption", "cost", *last]
    heads += [f"cost minus that of `{view.against}`"] if view.against else []
    found = []
    for kind, group in view.groups():
        row = rows[group[0]]
        cells = [kind, named(group), both(row), percent(row.zero_share), with_interval(row.cost, row.cost_95)]
        if not in_hours:
            cells.append(gap(row))
        elif oracle:
            cells.append(f"{row.cost - oracle.cost:+.2f}")
        found.append([*cells, *([difference(paired.get(group[0]))] if view.against else [])])
    return heads, found


def under_load_cells(view: ResultsView) -> Cells:
    """Returns the gains in medium and heavy load together, as shares of the gap."""
    found = {
        one.row.policy: one
        for one in view.comparison.under_load
        if (one.row.link_nodes, one.row.cost_ratio) == (view.nodes, view.ratio)
    }
    heads = ["", "policy", "interruption / overlap, h", "gap closed"]
    if view.against:
        heads += [f"more than `{view.against}`", "the same over all windows"]
    rows = []
    for kind, group in view.groups(found.__contains__):
        one = found[group[0]]
        cells = [kind, named(group), both(one.row), gap(one.row)]
        if view.against:
            cells.append(points(one.more, one.more_95, one.more_verdict))
            cells.append(points(one.more_of_all, one.more_of_all_95, one.more_of_all_verdict))
        rows.append(cells)
    return heads, rows


def month_cells(view: ResultsView) -> Cells:
    """Returns interruption, overlap, and the difference of the cost, month by month."""
    of_month = {month: (view.rows(month=month), view.differences(month=month)) for month in view.months}
    heads = ["", "policy"]
    for month, (rows, _) in of_month.items():
        heads.append(f"{month}: {quantity(next(iter(rows.values())).windows, 'window')}")
    found = []
    for kind, group in view.groups():
        cells = []
        for rows, paired in of_month.values():
            minus = difference(paired.get(group[0]))
            cells.append(f"{both(rows[group[0]])}{', ' if minus else ''}{minus}")
        found.append([kind, named(group), *cells])
    return heads, found


def seed_cells(view: ResultsView) -> Cells:
    """Returns the cost of each seed, for random policies."""
    of_seed = {
        seed: {r.policy: r for r in rows if (r.link_nodes, r.cost_ratio) == (view.nodes, view.ratio)}
        for seed, rows in view.comparison.seeds.items()
    }
    random = set(next(iter(of_seed.values())))
    heads = ["policy", *(f"seed {seed}" for seed in of_seed)]
    names = [name for _, group in view.groups() for name in group if name in random]
    return heads, [[f"`{name}`", *(f"{rows[name].cost:.2f}" for rows in of_seed.values())] for name in names]


def table(cells: Cells) -> str:
    """Formats cells as a table in Markdown."""
    return markdown(*cells)


def cheapest(view: ResultsView, names: Sequence[str], load: str = ALL) -> str | None:
    """Returns the cheapest of some policies."""
    rows = view.rows(load)
    shown = [name for name in names if name in rows]
    return min(shown, key=lambda name: rows[name].cost) if shown else None


def real(view: ResultsView) -> list[str]:
    """Returns all policies except bounds."""
    return [name for name in view.comparison.plan.names if kind_of(name) != BOUND]


def _place(group: tuple[str, ...]) -> int:
    return KINDS.index(kind_of(group[0]))
