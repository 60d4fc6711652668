#!/usr/bin/env python3
"""Two workloads on which a tree that schedules stages is tuned by one edit: before and after, as JSON.

One 100-GB job comes first and 2-GB jobs every 4 s after it; or half of the jobs have their largest first stage split in
one task and the rest, which waits for it.

Usage:
    benchmarks/dag/edge_cases.py tpch_profiles.json.gz > edge_cases.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mirage.dag.distilled.tree_policy import read_tree, scheduler_of, shipped_path
from mirage.dag.distilled.tuning import Episodes
from mirage.dag.simulator.world import DagCluster
from mirage.dag.workload.arrivals import Arrivals, poisson_arrivals
from mirage.dag.workload.templates import JobTemplate
from mirage.dag.workload.tpch import QUERIES, SIZES, read_tpch
from mirage.distill.editing import edited

SEEDS = range(400, 416)
EDITS = {"one large": "crowded_from: 20 % -> crowded_from: 40 %", "split": "new: 80 % -> new: 100 %"}


def one_large(seed: int, jobs: int = 60, gap_s: float = 4.0) -> Arrivals:
    """A job of the largest size, and jobs of the smallest after it."""
    random = np.random.default_rng(seed)
    template = random.integers(QUERIES, size=jobs)
    template[0] = (len(SIZES) - 1) * QUERIES + int(random.integers(QUERIES))
    arrival_ms = np.cumsum(random.exponential(gap_s * 1000, jobs)).astype(np.int64)
    return Arrivals(arrival_ms - arrival_ms[0], template)


def half_split(seed: int, jobs: int = 200) -> Arrivals:
    """The usual jobs, every second of them (by chance) of the split kind, which come after the usual ones."""
    usual = poisson_arrivals(jobs, seed)
    is_split = np.random.default_rng(seed).random(jobs) < 0.5
    return Arrivals(usual.arrival_ms, usual.template + len(SIZES) * QUERIES * is_split)


def split(template: JobTemplate) -> JobTemplate:
    """A job whose largest first stage waits for a new one, that has one of its tasks."""
    children = {child for _, child in template.edges}
    roots = [stage for stage in range(len(template.stages)) if stage not in children]
    largest = max(roots, key=lambda stage: template.stages[stage].tasks)
    profile, new = template.stages[largest], len(template.stages)
    if profile.tasks < 2:
        return template
    stages = list(template.stages)
    stages[largest] = replace(profile, tasks=profile.tasks - 1)
    stages.append(replace(profile, tasks=1))
    return JobTemplate(f"{template.name} split", (*template.edges, (new, largest)), tuple(stages))


def judged(templates: Sequence[JobTemplate], arrivals: Callable[[int], Arrivals], edit: str) -> dict[str, object]:
    """Mean times of the shipped tree and of the edited one."""
    episodes = Episodes(templates, [arrivals(seed) for seed in SEEDS], DagCluster(50), SEEDS)
    text, tree = read_tree(shipped_path())
    before, after = (
        episodes.mean_jct_s(one.decider, one.parameters)
        for one in (scheduler_of(tree, "tree"), scheduler_of(edited(text, [edit])[1], "edited"))
    )
    return {
        "edit": edit,
        "before_s": float(before.mean()),
        "after_s": float(after.mean()),
        "ratio": float(after.mean() / before.mean()),
        "better_seeds": int((after < before).sum()),
        "seeds": len(SEEDS),
    }


def main() -> None:
    """Print both cases."""
    templates = read_tpch(Path(sys.argv[1]))
    report = {
        "one large": judged(templates, one_large, EDITS["one large"]),
        "split": judged((*templates, *map(split, templates)), half_split, EDITS["split"]),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
