"""The best edit of one line on some episodes, and what it brings on others.

All edits are tried on a few of the episodes that they are chosen on, the best of them on more, and the best of these on
all (successive halving, Jamieson and Talwalkar 2016). Chosen is the one whose paired 95 % interval ends lowest: an edit
that gains a little everywhere comes before one that was lucky in a few episodes. What is told of it are episodes that
it was not chosen on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.dag.compare.row import interval_of_mean
from mirage.dag.distilled.tree_policy import scheduler_of
from mirage.dag.distilled.tuning import Episodes, Times
from mirage.dag.mending.edits import Edit, one_line_edits
from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.job_state import Floats

ROUNDS = ((8, 48), (3, 12))
"""One in so many episodes is played with each edit that is left, and so many of the edits go on."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A time before and after an edit, on the same episodes.

    Attributes:
        before_s: Mean over episodes.
        after_s: The same after the edit.
        difference_s: Mean of after less before.
        low_s: Lower end of its 95 % interval, by bootstrap over episodes; None for one episode.
        high_s: Upper end.
        better_seeds: Episodes in which the time is shorter after the edit.
        seeds: Episodes.
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
    """What an edit brings.

    Attributes:
        mean_jct: The mean time from arrival to end.
        makespan: From the first arrival to the last end.
    """

    mean_jct: Paired
    makespan: Paired


@dataclass(frozen=True, slots=True)
class Mended:
    """The best edit.

    Attributes:
        tried: Edits that were tried.
        change: The best one in words; None where no edit changes anything in these episodes.
        chosen: What it brings on the episodes that it was chosen on.
        reported: What it brings on others.
    """

    tried: int
    change: str | None = None
    chosen: Effect | None = None
    reported: Effect | None = None

    @property
    def helps(self) -> bool:
        """Whether jobs end sooner by more than chance, on the episodes that the edit was not chosen on."""
        high_s = None if self.reported is None else self.reported.mean_jct.high_s
        return high_s is not None and high_s < 0

    def to_json(self) -> dict[str, Any]:
        """The edit as JSON has it."""
        return {"tried": self.tried, "change": self.change, "helps": self.helps, **self._effects()}

    def _effects(self) -> dict[str, Any]:
        both = (("chosen", self.chosen), ("reported", self.reported))
        return {name: None if effect is None else asdict(effect) for name, effect in both}


def mended_of(told: dict[str, Any]) -> Mended:
    """What ``to_json`` told."""
    chosen, reported = (
        None if each is None else Effect(Paired(**each["mean_jct"]), Paired(**each["makespan"]))
        for each in (told["chosen"], told["reported"])
    )
    return Mended(told["tried"], told["change"], chosen, reported)


def mended(
    text: str,
    choose_on: Episodes,
    report_on: Episodes,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Mended:
    """The best edit of one line of a tree.

    Args:
        text: The text of the tree.
        choose_on: Episodes that it is chosen on.
        report_on: Others.
        progress: Told how many trials are done, of how many at most.
    """
    tree, edits = tree_of(text), one_line_edits(text)
    left = _promising(tree, edits, choose_on, progress)
    if not left:
        return Mended(len(edits))
    before = _times(tree, choose_on)
    effects = [(edit, effect_of(before, _times(edit.tree, choose_on))) for edit in left]
    best, chosen = min(effects, key=lambda pair: _upper_end_s(pair[1]))
    reported = effect_of(_times(tree, report_on), _times(best.tree, report_on))
    return Mended(len(edits), best.change, chosen, reported)


def _promising(
    tree: Tree, edits: tuple[Edit, ...], episodes: Episodes, progress: Callable[[int, int], None]
) -> list[Edit]:
    """The best edits after some rounds, without those that change nothing, and one of those that do the same."""
    left, done = list(edits), 0
    of = len(edits) + sum(min(keep, len(edits)) for _, keep in ROUNDS[:-1])
    for one_in, keep in ROUNDS:
        part = slice(None, None, one_in)
        seen = {_times(tree, episodes, part).mean_jct_s.tobytes()}
        ranked: list[tuple[float, int]] = []
        for number, edit in enumerate(left):
            jct_s = _times(edit.tree, episodes, part).mean_jct_s
            if jct_s.tobytes() not in seen:
                seen.add(jct_s.tobytes())
                ranked.append((float(jct_s.mean()), number))
            done += 1
            progress(done, of)
        left = [left[number] for _, number in sorted(ranked)[:keep]]
    return left


def effect_of(before: Times, after: Times) -> Effect:
    """What an edit brings, from the times before and after it."""
    return Effect(_paired(before.mean_jct_s, after.mean_jct_s), _paired(before.makespan_s, after.makespan_s))


def _paired(before_s: Floats, after_s: Floats) -> Paired:
    differ_s = after_s - before_s
    low_s, high_s = interval_of_mean(differ_s)
    better = int(np.count_nonzero(differ_s < 0))
    return Paired(
        float(before_s.mean()), float(after_s.mean()), float(differ_s.mean()), low_s, high_s, better, len(differ_s)
    )


def _upper_end_s(effect: Effect) -> float:
    one = effect.mean_jct
    return one.difference_s if one.high_s is None else one.high_s


def _times(tree: Tree, episodes: Episodes, part: slice = slice(None)) -> Times:
    scheduler = scheduler_of(tree, "tree")
    return episodes.times(scheduler.decider, scheduler.parameters, part)
