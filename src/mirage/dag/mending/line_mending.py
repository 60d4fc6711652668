"""The best edit of one line on some episodes, and its effect on others.

All edits are tried on a few of the episodes that they are chosen on, the best of them on more, and the best of these on
all (successive halving, Jamieson and Talwalkar 2016). The chosen one has the lowest upper end of the paired 95 %
interval: an edit that gains a little everywhere comes before one that was lucky in a few episodes. Its effect is
reported on episodes that it was not chosen on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.dag.distilled.tree_policy import scheduler_of
from mirage.dag.distilled.tuning import Episodes, Times
from mirage.dag.mending.edits import Edit, one_line_edits
from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.job_state import Floats
from mirage.study.intervals import interval_of_mean

ROUNDS = ((8, 48), (3, 12))
"""One in this number of episodes is run with each remaining edit, and this number of edits remain."""


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """A time before and after an edit, on the same episodes.

    Attributes:
        before_s: Mean over episodes.
        after_s: The same after the edit.
        difference_s: Mean of after minus before.
        low_s: Lower end of its 95 % interval, by bootstrap over episodes; None for one episode.
        high_s: Upper end.
        better_seeds: Number of episodes in which the time is shorter after the edit.
        seeds: Number of episodes.
    """

    before_s: float
    after_s: float
    difference_s: float
    low_s: float | None
    high_s: float | None
    better_seeds: int
    seeds: int


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of an edit.

    Attributes:
        mean_jct: The mean time from arrival to end.
        makespan: From the first arrival to the last end.
    """

    mean_jct: PairedTimes
    makespan: PairedTimes


@dataclass(frozen=True, slots=True)
class MendingResult:
    """The best edit and its effects.

    Attributes:
        tried: Number of edits that were tried.
        change: The best one in words; None where no edit changes anything in these episodes.
        chosen: Its effect on the episodes that it was chosen on.
        reported: Its effect on others.
    """

    tried: int
    change: str | None = None
    chosen: Effect | None = None
    reported: Effect | None = None

    @property
    def helps(self) -> bool:
        """Whether jobs end sooner by more than chance, on episodes of the report."""
        high_s = None if self.reported is None else self.reported.mean_jct.high_s
        return high_s is not None and high_s < 0

    def to_json(self) -> dict[str, Any]:
        """The edit in JSON form."""
        return {"tried": self.tried, "change": self.change, "helps": self.helps, **self._effects()}

    def _effects(self) -> dict[str, Any]:
        both = (("chosen", self.chosen), ("reported", self.reported))
        return {name: None if effect is None else asdict(effect) for name, effect in both}


def mended_of(stored: dict[str, Any]) -> MendingResult:
    """The result from its JSON form."""
    chosen, reported = (
        None if each is None else Effect(PairedTimes(**each["mean_jct"]), PairedTimes(**each["makespan"]))
        for each in (stored["chosen"], stored["reported"])
    )
    return MendingResult(stored["tried"], stored["change"], chosen, reported)


def mended(
    text: str,
    choose_on: Episodes,
    report_on: Episodes,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> MendingResult:
    """The best edit of one line of a tree.

    Args:
        text: The text of the tree.
        choose_on: Episodes that it is chosen on.
        report_on: Other episodes, for the report.
        progress: Called with the number of finished trials and the largest possible number.
    """
    tree, edits = tree_of(text), one_line_edits(text)
    left = _promising(tree, edits, choose_on, progress)
    if not left:
        return MendingResult(len(edits))
    before = _times(tree, choose_on)
    effects = [(edit, effect_of(before, _times(edit.tree, choose_on))) for edit in left]
    best, chosen = min(effects, key=lambda pair: _upper_end_s(pair[1]))
    reported = effect_of(_times(tree, report_on), _times(best.tree, report_on))
    return MendingResult(len(edits), best.change, chosen, reported)


def _promising(
    tree: Tree, edits: tuple[Edit, ...], episodes: Episodes, progress: Callable[[int, int], None]
) -> list[Edit]:
    """The best edits after some rounds, without those of no effect and duplicates."""
    left, done = list(edits), 0
    of = len(edits) + sum(min(remain, len(edits)) for _, remain in ROUNDS[:-1])
    for one_in, remain in ROUNDS:
        part = slice(None, None, one_in)
        observed = {_times(tree, episodes, part).mean_jct_s.tobytes()}
        ranked: list[tuple[float, int]] = []
        for number, edit in enumerate(left):
            jct_s = _times(edit.tree, episodes, part).mean_jct_s
            if jct_s.tobytes() not in observed:
                observed.add(jct_s.tobytes())
                ranked.append((float(jct_s.mean()), number))
            done += 1
            progress(done, of)
        left = [left[number] for _, number in sorted(ranked)[:remain]]
    return left


def effect_of(before: Times, after: Times) -> Effect:
    """The effect of an edit, from the times before and after it."""
    return Effect(_paired(before.mean_jct_s, after.mean_jct_s), _paired(before.makespan_s, after.makespan_s))


def _paired(before_s: Floats, after_s: Floats) -> PairedTimes:
    differ_s = after_s - before_s
    low_s, high_s = interval_of_mean(differ_s)
    better = int(np.count_nonzero(differ_s < 0))
    return PairedTimes(
        float(before_s.mean()), float(after_s.mean()), float(differ_s.mean()), low_s, high_s, better, len(differ_s)
    )


def _upper_end_s(effect: Effect) -> float:
    one = effect.mean_jct
    return one.difference_s if one.high_s is None else one.high_s


def _times(tree: Tree, episodes: Episodes, part: slice = slice(None)) -> Times:
    scheduler = scheduler_of(tree, "tree")
    return episodes.times(scheduler.decider, scheduler.parameters, part)
