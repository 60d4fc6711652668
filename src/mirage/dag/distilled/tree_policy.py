"""A tree as a scheduler: the candidate with the highest score gets the executors that the rule beside it allows.

One compiled function runs every tree: nodes and rule lie in the vector of numbers that it is handed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.dag.distilled.columns import (
    CROWDING,
    FEATURES,
    WORK_SHARE,
    WORK_TIMES_LEAST,
    Row,
    fill_job,
    fill_load,
    fill_stage,
    goes_first,
    job_work_ms,
    may_have,
)
from mirage.dag.distilled.executor_rule import Cap, rule_of
from mirage.dag.schedulers.registry import Scheduler
from mirage.dag.simulator.arrays import DECIDER, NOBODY, State, World
from mirage.dag.simulator.decision import NOTHING, decision, held, is_ready, may_pick, under_limit
from mirage.distill.tree import Leaf, Node, Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.units import Unit
from mirage.errors import ConfigurationError, MirageError, UnknownName
from mirage.sim.kernel.compile import kernel

MOST_BYTES = 1_000_000
"""A tree that a person reads is no longer."""

_CROWDED_FROM, _SPARE, _EVEN, _USUAL, _QUIET, _CROWDED, _TREE_AT, _ROW_AT, _BEST_AT = 0, 1, 2, 3, 4, 11, 18, 19, 20
_HEADER = 21
_POWER, _FACTOR, _MOST, _KEEP, _NEW, _TASKS_EACH, _EARLY = range(7)
_ASKS, _THRESHOLD, _ABOVE = range(3)
_NODE = 3
"""Cells of a node: a column, or -1 for a leaf; the threshold, or the score; the cell of the node above it."""


def parameters_of(tree: Tree) -> NDArray[np.float64]:
    """What ``decide_by_tree`` is handed to run a tree.

    Raises:
        UnknownName: The tree has a feature or a setting that means nothing here.
        ConfigurationError: It does not answer numbers, tells a feature in another unit, or a setting is wrong.
    """
    rule = rule_of(dict(tree.settings))
    check_features(tree)
    nodes: list[float] = []
    column = {feature.name: float(k) for k, feature in enumerate(FEATURES)}

    def add(node: Node) -> None:
        at = len(nodes)
        if isinstance(node, Leaf):
            nodes.extend((-1.0, float(node.value), 0.0))
            return
        nodes.extend((column[node.feature], node.threshold, 0.0))
        add(node.below)
        nodes[at + _ABOVE] = float(_HEADER + len(nodes))
        add(node.above)

    add(tree.root)
    flags = (float(rule.spare), float(rule.even), float(rule.usual))
    header = [rule.crowded_from, *flags, *_cells(rule.quiet), *_cells(rule.crowded)]
    row_at = _HEADER + len(nodes)
    places = [_HEADER, row_at, row_at + len(FEATURES)]
    return np.array([*header, *places, *nodes, *[0.0] * (2 * len(FEATURES))])


def tells_usual(parameters: NDArray[np.float64]) -> bool:
    """Whether the tree of these parameters is told the work of jobs by usual durations."""
    return bool(parameters[_USUAL] > 0.0)


def _cells(cap: Cap) -> tuple[float, ...]:
    return cap.power, cap.factor, cap.most, cap.keep, cap.new, cap.tasks_each, cap.early


def check_features(tree: Tree) -> None:
    """Whether a tree scores candidates by what is known of them.

    Raises:
        UnknownName: It has a feature that means nothing here.
        ConfigurationError: It does not answer numbers, or tells a feature in another unit.
    """
    if tree.answers is not Unit.NUMBER:
        raise ConfigurationError("the tree does not answer plain numbers; its leaves are scores: 'values: number'")
    unit = {feature.name: feature.unit for feature in FEATURES}
    for feature in tree.features:
        if feature.name not in unit:
            raise UnknownName("feature", feature.name, unit)
        if feature.unit is not unit[feature.name]:
            raise ConfigurationError(
                f"the feature {feature.name} is told as {feature.unit}; it is {unit[feature.name]}"
            )


def read_tree(path: Path) -> tuple[str, Tree]:
    """The text of a tree in a file, and the tree, which can run.

    Raises:
        ConfigurationError: The file cannot be read, or is no tree that scores candidates.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the tree {path} cannot be read: {error}; name a text file") from error
    if len(text) > MOST_BYTES:
        raise ConfigurationError(f"the tree {path} is longer than {MOST_BYTES} characters; nobody reads such a tree")
    tree = tree_of(text, str(path))
    try:
        parameters_of(tree)
    except MirageError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return text, tree


def shipped_path() -> Path:
    """The file of the tree that ships with the package."""
    return Path(str(resources.files("mirage.dag.distilled") / "tree.txt"))


@lru_cache(maxsize=1)
def shipped_tree() -> Tree:
    """The tree that ships with the package."""
    return read_tree(shipped_path())[1]


@kernel()
def _score(p: NDArray[np.float64], row: Row) -> float:
    at = int(p[_TREE_AT])
    while p[at] >= 0.0:
        at = at + _NODE if row[int(p[at])] < p[at + _THRESHOLD] else int(p[at + _ABOVE])
    return float(p[at + _THRESHOLD])


@kernel()
def _powers(state: State, usual: bool, power: float) -> float:
    """The sum over all jobs that want executors of their work to a power."""
    total = 0.0
    for place in range(state.clock[0].n_active):
        if state.jobs[state.active[place]].unsaturated > 0:
            total += _to_power(state, state.active[place], usual, power)
    return max(total, 1e-300)


@kernel()
def _to_power(state: State, job: int, usual: bool, power: float) -> float:
    return 1.0 if power == 0.0 else max(job_work_ms(state, job, usual), 1) ** power


@kernel()
def _cap(state: State, p: NDArray[np.float64], rule: int, job: int, scale: float) -> int:
    """The most executors that a job may hold, at least one."""
    share = scale * _to_power(state, job, p[_USUAL] > 0.0, p[rule + _POWER])
    if job == state.clock[0].source_job:
        share *= p[rule + _KEEP]
    elif held(state, job) == 0:
        share *= p[rule + _NEW]
    return int(max(1.0, math.ceil(share)))


@kernel()
def _number(state: State, p: NDArray[np.float64], rule: int, stage: int, room: int) -> int:
    """Executors for a stage whose job has room for some."""
    number = min(room, max(1, int(state.stages[stage].demand / p[rule + _TASKS_EACH])))
    if not is_ready(state, stage):
        number = min(number, max(1, math.ceil(p[rule + _EARLY] * room)))
    return _even_number(state, stage, number) if p[_EVEN] > 0.0 else int(number)


@kernel()
def _even_number(state: State, stage: int, number: int) -> int:
    """The fewest executors with which a stage ends in as many rounds of tasks as with so many."""
    row = state.stages[stage]
    here = row.executors + row.moving + row.committed
    rounds = math.ceil(row.remaining / (here + number))
    return int(min(number, max(1, math.ceil(row.remaining / rounds) - here)))


@kernel(DECIDER)
def decide_by_tree(world: World, state: State, p: NDArray[np.float64]) -> int:
    """Pick the candidate with the highest score among those whose job has room, and as many executors as it has.

    A score below 0 leaves a candidate alone. Where nothing runs any more even such a one is picked.
    """
    clock, executors = state.clock[0], world.settings[0].executors
    width = int(p[_BEST_AT] - p[_ROW_AT])
    row = p[int(p[_ROW_AT]) : int(p[_ROW_AT]) + width]
    best = p[int(p[_BEST_AT]) : int(p[_BEST_AT]) + width]
    usual = p[_USUAL] > 0.0
    fill_load(world, state, usual, row)
    total_s, least_s = row[WORK_SHARE], row[WORK_TIMES_LEAST]
    rule = _CROWDED if row[CROWDING] >= p[_CROWDED_FROM] else _QUIET
    scale = p[rule + _FACTOR] * executors / _powers(state, usual, p[rule + _POWER])
    most = max(1, math.ceil(p[rule + _MOST] * executors))
    lowest = 0.0 if clock.n_heap > 0 else -math.inf
    for is_lifted in range(2):
        if is_lifted and p[_SPARE] == 0.0:
            break
        picked, picked_score, picked_room = NOBODY, 0.0, 0
        for place in range(clock.n_active):
            job = state.active[place]
            if not may_have(world, state, job):
                continue
            cap = executors if is_lifted else min(most, _cap(state, p, rule, job, scale))
            room = min(clock.free, under_limit(state, job, cap))
            if room < 1:
                continue
            fill_job(world, state, job, usual, total_s, least_s, row)
            fixed, before = world.jobs[job], 0
            for stage in range(fixed.first_stage, fixed.first_stage + fixed.n_stages):
                if not may_pick(state, stage):
                    continue
                fill_stage(world, state, stage, before, row)
                before += 1
                score = _score(p, row)
                is_equal = picked != NOBODY and score == picked_score
                if score >= lowest and (
                    picked == NOBODY or score > picked_score or (is_equal and goes_first(row, best, True))
                ):
                    picked, picked_score, picked_room = stage, score, room
                    for column in range(width):
                        best[column] = row[column]
        if picked != NOBODY:
            return decision(picked, _number(state, p, rule, picked, picked_room))
    return NOTHING


def make_tree(text: str, given: Sequence[str]) -> Scheduler:
    """The scheduler of a tree: that of a file, or without one the tree that ships with the package.

    Raises:
        ConfigurationError: The file holds no tree that can run.
    """
    tree = read_tree(Path(":".join(given)))[1] if given else shipped_tree()
    return scheduler_of(tree, text)


def scheduler_of(tree: Tree, name: str) -> Scheduler:
    """A tree as a scheduler.

    Raises:
        ConfigurationError: It does not score candidates, or the rule beside it is wrong.
    """
    return Scheduler(name, decide_by_tree, parameters_of(tree))
