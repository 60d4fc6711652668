"""The page of a mended tree: for each edge case the edit, times before and after it, and the diff, as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirage.dag.mending.mend import Mended, Paired
from mirage.dag.workload.edge_cases import edge_case_of

_HEAD = (
    "| case | edit | mean JCT before | after | difference | makespan before | after | difference | sooner on |",
    "|---|---|---:|---:|---:|---:|---:|---:|---:|",
)

WIDTH = 140
"""Columns of the page's text."""


@dataclass(frozen=True, slots=True)
class Case:
    """An edge case with its edit.

    Attributes:
        name: Of the case.
        setting: Executors and jobs.
        mended: The best edit, and what it brings.
        diff: What it changes in the text of the tree; empty for no edit.
    """

    name: str
    setting: str
    mended: Mended
    diff: str


def verdict(mended: Mended) -> str:
    """Whether an edit helps, in a sentence."""
    if mended.change is None or mended.reported is None:
        return "Nothing to mend: no edit changes anything in these episodes."
    one = mended.reported.mean_jct
    if one.low_s is None or one.high_s is None:
        return "One episode says nothing for sure: report on more seeds."
    if mended.helps:
        return "The edit helps."
    if one.low_s > 0:
        return "Nothing to mend: the best edit on the seeds of the choice is worse on others."
    return "Nothing to mend: on other seeds the best edit is no better than chance."


def difference_text(one: Paired) -> str:
    """A difference with its interval, as ``-0.8 s [-1.2, -0.4]``."""
    if one.low_s is None or one.high_s is None:
        return f"{one.difference_s:+.2f} s"
    return f"{one.difference_s:+.2f} s [{one.low_s:+.2f}, {one.high_s:+.2f}]"


def page(tree: str, cases: Sequence[Case], *, command: str, seeds: str, report_seeds: str, jobs: str) -> str:
    """The page as Markdown.

    Args:
        tree: What the tree is called.
        cases: In the order in which they are told.
        command: That wrote the page.
        seeds: That edits were chosen on.
        report_seeds: That are told.
        jobs: What they are called.
    """
    return "\n".join(_lines(tree, cases, command, seeds, report_seeds, jobs)) + "\n"


def _lines(tree: str, cases: Sequence[Case], command: str, seeds: str, report_seeds: str, jobs: str) -> Iterator[str]:
    yield "# Edge cases, and one edit each"
    yield ""
    yield textwrap.fill(
        f"An edge case differs from the usual episodes in one point. For each, changes of one line of {tree} are "
        "tried: every threshold, score and number of the rule is moved by a few steps, and every word exchanged for "
        f"its opposite. Chosen is the edit whose paired 95 % interval ends lowest on the seeds {seeds}; told are "
        f"the seeds {report_seeds}, on {jobs}. Differences are after less before, with 95 % intervals by bootstrap "
        "over seeds. An edit helps where the whole interval of the mean time from arrival to end (JCT) is below 0; "
        "such differences are bold.",
        WIDTH,
    )
    yield f"\n```sh\n{command}\n```\n"
    yield from _HEAD
    for case in cases:
        yield _row(case)
    for case in cases:
        yield f"\n## {case.name}\n"
        yield f"{_sentence(case)} {verdict(case.mended)}"
        if case.diff:
            yield f"\n```diff\n{case.diff}```"


def _sentence(case: Case) -> str:
    about = edge_case_of(case.name).about
    return f"{about[0].upper()}{about[1:]}, at {case.setting}; {case.mended.tried} edits were tried."


def _row(case: Case) -> str:
    effect = case.mended.reported
    if case.mended.change is None or effect is None:
        return f"| `{case.name}` | none |" + " |" * 7
    jct, ends = effect.mean_jct, effect.makespan
    cells = (
        f"`{case.name}`",
        f"`{case.mended.change}`",
        f"{jct.before_s:,.1f} s",
        f"{jct.after_s:,.1f} s",
        _bold(difference_text(jct), case.mended.helps),
        f"{ends.before_s:,.1f} s",
        f"{ends.after_s:,.1f} s",
        difference_text(ends),
        f"{jct.better_seeds} of {jct.seeds}",
    )
    return f"| {' | '.join(cells)} |"


def _bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text
