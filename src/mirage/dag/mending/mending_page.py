"""The Markdown page of edits for edge cases: the edit, times before and after, the diff."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirage.dag.mending.line_mending import MendingResult, PairedTimes
from mirage.dag.workload.edge_cases import edge_case_of

_HEAD = (
    "| case | edit | mean JCT before | after | difference | makespan before | after | difference | sooner on |",
    "|---|---|---:|---:|---:|---:|---:|---:|---:|",
)

WIDTH = 140
"""Width of the page's text in columns."""


@dataclass(frozen=True, slots=True)
class Case:
    """An edge case with its edit.

    Attributes:
        name: Of the case.
        setting: Executors and jobs.
        mended: The best edit and its effects.
        diff: Its change of the text of the tree; empty for no edit.
    """

    name: str
    setting: str
    mended: MendingResult
    diff: str


def verdict(mended: MendingResult) -> str:
    """Whether an edit helps, in a sentence."""
    if mended.change is None or mended.reported is None:
        return "Nothing to mend: no edit changes anything in these episodes."
    one = mended.reported.mean_jct
    if one.low_s is None or one.high_s is None:
        return "One episode proves nothing: report on more seeds."
    if mended.helps:
        return "The edit helps."
    if one.low_s > 0:
        return "Nothing to mend: the best edit on the seeds of the choice is worse on others."
    return "Nothing to mend: on other seeds the best edit is no better than chance."


def difference_text(one: PairedTimes) -> str:
    """A difference with its interval, as ``-0.80 s [-1.20, -0.40]``."""
    if one.low_s is None or one.high_s is None:
        return f"{one.difference_s:+.2f} s"
    return f"{one.difference_s:+.2f} s [{one.low_s:+.2f}, {one.high_s:+.2f}]"


def page(tree: str, cases: Sequence[Case], *, command: str, seeds: str, report_seeds: str, jobs: str) -> str:
    """The page as Markdown.

    Args:
        tree: Name of the tree.
        cases: In the order of the page.
        command: The command that wrote the page.
        seeds: Seeds that edits were chosen on.
        report_seeds: Seeds of the report.
        jobs: Name of the jobs.
    """
    return "\n".join(_lines(tree, cases, command, seeds, report_seeds, jobs)) + "\n"


def _lines(tree: str, cases: Sequence[Case], command: str, seeds: str, report_seeds: str, jobs: str) -> Iterator[str]:
    yield "# Edge cases, and one edit each"
    yield ""
    yield textwrap.fill(
        f"An edge case differs from the usual episodes in one point. For each, changes of one line of {tree} are "
        "tried: every threshold, score and number of the rule is moved by a few steps, and every word replaced by its "
        f"opposite. The chosen edit has the shortest mean time from arrival to end (JCT) on the seeds {seeds}; the "
        f"table reports the seeds {report_seeds}, on {jobs}. Differences are after minus before, with 95 % intervals "
        "by Student's t over seeds. An edit helps where the whole interval of the mean JCT is below 0; such "
        "differences are bold.",
        WIDTH,
    )
    yield f"\n```sh\n{command}\n```\n"
    yield from _HEAD
    for case in cases:
        yield _row(case)
    for case in cases:
        yield f"\n## {case.name}\n"
        about = edge_case_of(case.name).about
        tried = f"at {case.setting}; {case.mended.tried} edits were tried."
        yield f"{about[0].upper()}{about[1:]}, {tried} {verdict(case.mended)}"
        if case.diff:
            yield f"\n```diff\n{case.diff}```"


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
