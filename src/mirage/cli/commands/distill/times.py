"""Mean completion times and makespans under a tree in each setting, as JSON and as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirage.cli.commands.distill.distill_options import EpisodeOptions
    from mirage.dag.distilled.tuning import Episodes
    from mirage.distill.tree import Tree

TimesBySetting = dict[str, dict[str, float]]
"""``mean_jct_s`` and ``makespan_s``, each by setting."""


def by_setting(names: Sequence[str], mean_jct_s: Sequence[float], makespan_s: Sequence[float]) -> TimesBySetting:
    """Returns times as JSON."""
    return {
        "mean_jct_s": dict(zip(names, mean_jct_s, strict=True)),
        "makespan_s": dict(zip(names, makespan_s, strict=True)),
    }


def times_under(tree: Tree, played: EpisodeOptions, episodes: Sequence[Episodes]) -> TimesBySetting:
    """Returns the times under a tree, averaged over the episodes of each setting."""
    from mirage.dag.distilled.tree_policy import scheduler_of

    scheduler = scheduler_of(tree, "tree")
    each = [one.times(scheduler.decider, scheduler.parameters) for one in episodes]
    return by_setting(
        played.settings,
        [float(one.mean_jct_s.mean()) for one in each],
        [float(one.makespan_s.mean()) for one in each],
    )


def times_line(row: Mapping[str, Mapping[str, float]]) -> str:
    """Returns times in words, from their JSON."""
    times = ", ".join(f"{name} {mean_s:,.1f} s" for name, mean_s in row["mean_jct_s"].items())
    ends = ", ".join(f"{name} {mean_s:,.0f} s" for name, mean_s in row["makespan_s"].items())
    return f"mean time from arrival to end: {times}; makespan: {ends}"
