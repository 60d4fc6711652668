"""Findings of a comparison as text: proven and open statements, from the intervals."""

from __future__ import annotations

from collections.abc import Sequence

from mirage.errors import quantity
from mirage.learn.training.comparison.claims import FAILS, HOLDS, LEAST_LESS, LEAST_WITHOUT, OPEN, Claim
from mirage.learn.training.comparison.comparison_plan import OURS, PUBLISHED, kind_of
from mirage.learn.training.comparison.method_comparison import MethodComparison
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.policy_score import ALL
from mirage.provision.link_size import LIGHT
from mirage.report.figures import links_words
from mirage.report.judgement.result_cells import at, both, difference, gap, markdown, percent, share
from mirage.report.judgement.result_tables import ResultsView, cheapest, real

_VERDICTS = {
    HOLDS: "holds beyond the interval for",
    FAILS: "fails beyond the interval for",
    OPEN: "is undecided for",
}


def against_words(view: ResultsView) -> list[str]:
    """Lists the policies better than, worse than, and not distinguishable from the reference."""
    if view.against is None:
        return []
    paired = {name: one for name, one in view.differences().items() if name in real(view)}
    better, worse, rest = (
        [name for name, one in paired.items() if one.verdict == verdict] for verdict in ("better", "worse", "")
    )
    base = f"`{view.against}`"
    found = f"Better than {base} beyond doubt: {_list(better)}."
    sentences = [found if better else f"Nothing is better than {base} beyond doubt."]
    if worse:
        sentences.append(f"Worse than {base} beyond doubt: {_list(worse)}.")
    if rest:
        sentences.append(f"Not distinguishable from {base}: {_list(rest)}.")
    return sentences


def reactive_words(view: ResultsView) -> list[str]:
    """Lists the policies that cost less, or more, than the reactive chain."""
    found = [
        one
        for one in view.comparison.against_reactive
        if (one.link_nodes, one.cost_ratio) == (view.nodes, view.ratio) and one.policy in real(view)
    ]
    if not found:
        return []
    less, more = ([one.policy for one in found if one.verdict == v] for v in ("better", "worse"))
    cheaper = f"Cheaper than `{REACTIVE}` beyond doubt: {_list(less)}." if less else ""
    cheaper = cheaper or f"Nothing costs less than `{REACTIVE}` beyond doubt."
    return [cheaper, *([f"More expensive: {_list(more)}."] if more else [])]


def best_words(view: ResultsView) -> list[str]:
    """Describes the cheapest published method and the cheapest of ours."""
    sentences = []
    rows, paired = view.rows(), view.differences()
    for kind, what in ((PUBLISHED, "The cheapest published method"), (OURS, "The cheapest of ours")):
        name = cheapest(view, [one for one in real(view) if kind_of(one) == kind])
        if name is None:
            continue
        minus = difference(paired.get(name)).strip("*")
        tail = f"; {minus} against `{view.against}`" if minus else ""
        sentences.append(f"{what} is `{name}` ({both(rows[name])} h, gap closed {gap(rows[name])}{tail}).")
    return sentences


def findings(view: ResultsView) -> str:
    """Returns a paragraph for one link size and one cost ratio."""
    sentences = [*best_words(view), *against_words(view), *reactive_words(view)]
    heading = f"{links_words(view.nodes).capitalize()} {at(view.ratio)}"
    return f"**{heading}.** " + " ".join(sentences) if sentences else ""


def claims_table(comparison: MethodComparison, nodes: int) -> str:
    """Tabulates claims by policy and load: less interruption, hand-overs without, overlap."""
    of_size = [claim for claim in comparison.claims if claim.link_nodes == nodes]
    loads = list(dict.fromkeys(claim.load for claim in of_size))
    heads = ["", "policy"]
    for load in loads:
        one = next(claim for claim in of_size if claim.load == load)
        windows = quantity(one.windows, "window")
        heads.append(f"{'all loads' if load == ALL else load}: {windows}, {one.reactive_h:.2f} h")
    cells = {(claim.policy, claim.load): _claim_cell(claim) for claim in of_size}
    policies = list(dict.fromkeys(claim.policy for claim in of_size))
    return markdown(heads, [[kind_of(p), f"`{p}`", *(cells[p, load] for load in loads)] for p in policies])


def claims_words(comparison: MethodComparison, nodes: int) -> str:
    """Describes which of the paper's claims the published methods meet here."""
    found = [
        claim
        for claim in comparison.claims
        if claim.link_nodes == nodes
        and kind_of(claim.policy) == PUBLISHED
        and claim.policy != REACTIVE
        and claim.load not in (ALL, LIGHT)
    ]
    light = [c for c in comparison.claims if (c.link_nodes, c.load) == (nodes, LIGHT) and c.policy == REACTIVE]
    sentences = []
    if found:
        less, without = ([getattr(claim, name) for claim in found] for name in ("less_verdict", "without_verdict"))
        sentences.append(_range_words(found))
        sentences.append(f"At least {percent(LEAST_LESS)} less: {_verdict_words(found, less)}")
        sentences.append(f"At least {percent(LEAST_WITHOUT)} without any: {_verdict_words(found, without)}")
    if light:
        (one,) = light
        sentences.append(
            f"In light load there are {one.reactive_h:.2f} h to cut, and {percent(one.without)} of reactive hand-overs "
            "have no interruption: shares are not informative there, and the table gives hours."
        )
    return f"**{links_words(nodes).capitalize()}.** " + " ".join(sentences) if sentences else ""


def _range_words(found: Sequence[Claim]) -> str:
    less = [claim.less for claim in found if claim.less is not None]
    without, overlap_h = [claim.without for claim in found], [claim.overlap_h for claim in found]
    cut = f"cut interruption by {percent(min(less))} to {percent(max(less))}" if less else "had nothing to cut"
    return (
        f"In medium and heavy load the published methods that do more than react {cut} (claimed: 17 % to 100 %) and "
        f"leave {percent(min(without))} to {percent(max(without))} of hand-overs without any (claimed: 23 % to 76 %), "
        f"at {min(overlap_h):.2f} to {max(overlap_h):.2f} h of overlap."
    )


def _verdict_words(found: Sequence[Claim], verdicts: Sequence[str]) -> str:
    """Lists the policies for which it holds, fails, and is undecided, with the overlap."""
    sentences = []
    for verdict, words in _VERDICTS.items():
        those = [claim for claim, of in zip(found, verdicts) if of == verdict]
        if those:
            sentences.append(
                f"{words} " + ", ".join(f"`{c.policy}` in {c.load} load ({c.overlap_h:.2f} h)" for c in those)
            )
    return "; ".join(sentences) + "."


def _claim_cell(claim: Claim) -> str:
    """Formats a claim: ``45 % (20 … 61) less; 62 % without; overlap 2.31 h``; light in hours."""
    if claim.load == LIGHT or claim.less is None:
        less = f"{claim.interruption_h - claim.reactive_h:+.2f} h"
    else:
        less = f"{share(claim.less, claim.less_95)} less"
    return f"{less}; {share(claim.without, claim.without_95)} without; overlap {claim.overlap_h:.2f} h"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
