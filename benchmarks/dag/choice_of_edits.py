"""Choice of edits by few seeds: by the mean, or by the upper end of its interval.

    python benchmarks/dag/choice_of_edits.py tpch_profiles.json.gz [-o FILE.json]

All edits of two trees run on 120 seeds, in the usual setting and in the edge cases, with 10 executors and 20 jobs. Some
of the seeds are drawn 200 times to choose an edit, by the rounds of ``mirage distill mend``; its effect is the mean
difference on the other seeds, in percent of the time before it. About five minutes of processor time.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mirage.array_types import Floats
from mirage.dag.distilled.tree_policy import scheduler_of, shipped_path
from mirage.dag.distilled.tuning import Episodes
from mirage.dag.mending.line_mending import ROUNDS, one_line_edits
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import GAP_S
from mirage.dag.workload.edge_cases import EDGE_CASES, EdgeCase
from mirage.dag.workload.templates import JobTemplate
from mirage.dag.workload.tpch import read_tpch
from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.study.intervals import interval_of_mean

SEEDS = range(7000, 7120)
CHOICES = 200
CHOOSE_ON = (3, 4, 6, 8, 12, 24)
SIMPLE = """tree: 1
features:
    own: flag
    drains_in: duration
values: number
settings:
    cap: 0.25 1.5
    work: usual

if own:
    4
else:
    if drains_in < 20s:
        0
    else:
        1
"""


def main() -> None:
    """Runs, prints and stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/choice_of_edits.json"))
    options = parser.parse_args()
    settings = {}
    for name, differ in differences(read_tpch(options.profiles)):
        settings[name] = {n: effects(differ, n) for n in CHOOSE_ON}
        print(f"{name}: {len(differ)} edits", flush=True)
    print(f"\n{len(settings)} settings; effect on other seeds, and choices that help on twice as many of them")
    for n in CHOOSE_ON:
        (mean, helps), (end, end_helps) = np.mean([each[n] for each in settings.values()], axis=0)
        sooner = sum(each[n][0][0] < each[n][1][0] for each in settings.values())
        print(
            f"{n:2} seeds: by the mean {mean:+.2f} %, {helps:.0%}; by the upper end {end:+.2f} %, {end_helps:.0%}; "
            f"ratio {mean / end:.2f}, the mean is better in {sooner}"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def differences(templates: tuple[JobTemplate, ...]) -> Iterator[tuple[str, Floats]]:
    """Effects by edit and seed, in percent of the mean time before, in each setting."""
    cases = {"usual": EdgeCase("")} | {name: case for name, case in EDGE_CASES.items() if case.executors is None}
    for tree, text in (("shipped", shipped_path().read_text(encoding="utf-8")), ("simple", SIMPLE)):
        edits = one_line_edits(text)
        for name, case in cases.items():
            cluster = DagCluster(moving_s=2.0 if case.moving_s is None else case.moving_s, noise=case.noise or 0.0)
            setting = EpisodeSetting(10, 20, case.gap_s or GAP_S, mix=case.mix)
            episodes = Episodes.drawn(templates, setting, cluster, SEEDS)
            before = _mean_jct_s(tree_of(text), episodes)
            after = np.stack([_mean_jct_s(edit.tree, episodes) for edit in edits])
            yield f"{tree}, {name}", 100 * (after - before) / before.mean()


def _mean_jct_s(tree: Tree, episodes: Episodes) -> Floats:
    scheduler = scheduler_of(tree, "tree")
    return episodes.mean_jct_s(scheduler.decider, scheduler.parameters)


def effects(differ: Floats, n: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Effects in percent, and parts of choices that help: by the mean, and by the upper end.

    Args:
        differ: In percent, by edit and seed.
        n: Number of seeds to choose on.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(CHOICES):
        order = rng.permutation(differ.shape[1])
        on, others = differ[:, order[:n]], differ[:, order[n:]]
        left = promising(on)
        for criterion in (np.mean, _upper_end):
            best = min(left, key=lambda edit: criterion(on[edit]))
            found.append((others[best].mean(), _upper_end(others[best, : 2 * n]) < 0))
    by_mean, by_end = np.reshape(found, (CHOICES, 2, 2)).mean(axis=0).tolist()
    return tuple(by_mean), tuple(by_end)


def promising(on: Floats) -> list[int]:
    """The edits that remain after the rounds, as in ``mirage.dag.mending.line_mending``."""
    left = list(range(len(on)))
    for one_in, remain in ROUNDS:
        effects_so_far, ranked = {np.zeros(on[0, ::one_in].shape).tobytes()}, []
        for edit in left:
            part = np.ascontiguousarray(on[edit, ::one_in])
            if part.tobytes() not in effects_so_far:
                effects_so_far.add(part.tobytes())
                ranked.append((part.mean(), edit))
        left = [edit for _, edit in sorted(ranked)[:remain]]
    return left


def _upper_end(values: Floats) -> float:
    return interval_of_mean(values)[1]


if __name__ == "__main__":
    main()
