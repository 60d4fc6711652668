"""Decisions by a tree and its executor rule, compiled.

Numbers of a range of load are consecutive: the load where it begins, the cell of its tree, the columns that this tree
tests, as bits, and the executor rule. A node is three cells: a column, or -1 for a leaf; the threshold, or the score;
and the cell of the node above it; the one below it follows directly.
"""

from __future__ import annotations

import math

from mirage.array_types import Floats
from mirage.dag.distilled.candidate_columns import (
    CROWDING,
    FEATURES,
    OF_A_STAGE,
    READY,
    WORK,
    WORK_SHARE,
    WORK_TIMES_LEAST,
    Row,
    fill_job,
    fill_load,
    fill_stage,
    job_work_ms,
    may_have,
)
from mirage.dag.simulator.dag_arrays import DECIDER, NO_STAGE, DagState, DagWorld
from mirage.dag.simulator.stage_decision import (
    NOTHING,
    decision,
    first_stage_to_pick,
    held,
    is_ready,
    may_pick,
    under_limit,
)
from mirage.kernel.compile import kernel

_RANGES, _ROW_AT = range(2)
HEADER = 2
(
    _FROM, _TREE_AT, _TESTED,
    _POWER, _FACTOR, _MOST, _SOURCE_SHARE, _NEW, _TASKS_EACH, _EARLY, _SPARE, _EVEN, _USUAL,
) = range(13)  # fmt: skip
RANGE = 13
"""Cells of a range of load; those of the rule in the order of ``executor_rule.Cap``."""

_COLUMN, _THRESHOLD, ABOVE = range(3)
_NODE = 3

_WIDTH = len(FEATURES)
_STORED_WEIGHTS = 64
WEIGHT_CELLS = _STORED_WEIGHTS
"""Cells for the weights of jobs in shares: powers are slow, and each is needed twice in a decision."""


@kernel()
def range_at(p: Floats, crowding: float) -> int:
    """The first cell of the numbers for a load, in jobs per executor."""
    at = HEADER + RANGE * (int(p[_RANGES]) - 1)
    while at > HEADER and crowding < p[at + _FROM]:
        at -= RANGE
    return int(at)


def uses_usual_work(p: Floats, crowding: float) -> bool:
    """Whether the tree of these parameters gets work by usual durations at a load."""
    return bool(p[range_at(p, crowding) + _USUAL] > 0.0)


@kernel()
def _score(p: Floats, at: int, row: Row) -> float:
    while p[at] >= 0.0:
        at = at + _NODE if row[int(p[at])] < p[at + _THRESHOLD] else int(p[at + ABOVE])
    return float(p[at + _THRESHOLD])


@kernel()
def score_of(p: Floats, row: Row) -> float:
    """The score of a candidate, given its complete row."""
    return _score(p, int(p[range_at(p, row[CROWDING]) + _TREE_AT]), row)


@kernel()
def _weight(state: DagState, job: int, usual: bool, power: float) -> float:
    """The work of a job to the power of the rule."""
    return 1.0 if power == 0.0 else max(job_work_ms(state, job, usual), 1) ** power


@kernel()
def _weigh(state: DagState, usual: bool, power: float, weights: Floats) -> float:
    """The total weight of jobs that want executors; stores the weights of the first ones."""
    total = 0.0
    for place in range(state.clock[0].n_active):
        if state.jobs[state.active[place]].unsaturated > 0:
            weight = _weight(state, state.active[place], usual, power)
            total += weight
            if place < _STORED_WEIGHTS:
                weights[place] = weight
    return max(total, 1e-300)


@kernel()
def _cap(state: DagState, p: Floats, rule: int, job: int, share: float) -> int:
    """The most executors that a job with a share may hold, at least one."""
    if job == state.clock[0].source_job:
        share *= p[rule + _SOURCE_SHARE]
    elif held(state, job) == 0:
        share *= p[rule + _NEW]
    return int(max(1.0, math.ceil(share)))


@kernel()
def _stranded_stage(world: DagWorld, state: DagState) -> int:
    """A stage that can start at once, of a job with all executors waiting; -1 for none.

    No other executor is on its way to the job. Its executors were sent to a stage that cannot start yet, and those that
    were to run the parents went elsewhere: nothing of the job ends, so they are never offered again.
    """
    clock = state.clock[0]
    for place in range(clock.n_active):
        job = state.active[place]
        row = state.jobs[job]
        if row.in_pool == 0 or row.in_pool < row.local or row.moving + row.committed > 0 or job == clock.source_job:
            continue
        stage = first_stage_to_pick(world, state, job)
        if stage != NO_STAGE and is_ready(state, stage):
            return int(stage)
    return NO_STAGE


@kernel()
def _number(state: DagState, p: Floats, rule: int, stage: int, room: int) -> int:
    """Executors for a stage of a job that has room for some."""
    number = min(room, max(1, int(state.stages[stage].demand / p[rule + _TASKS_EACH])))
    if not is_ready(state, stage):
        number = min(number, max(1, math.ceil(p[rule + _EARLY] * room)))
    return _even_number(state, stage, number) if p[rule + _EVEN] > 0.0 else int(number)


@kernel()
def _even_number(state: DagState, stage: int, number: int) -> int:
    """The fewest executors that end a stage in as many rounds of tasks as a given number."""
    row = state.stages[stage]
    here = row.executors + row.moving + row.committed
    rounds = math.ceil(row.remaining / (here + number))
    return int(min(number, max(1, math.ceil(row.remaining / rounds) - here)))


@kernel()
def _best_stage(world: DagWorld, state: DagState, p: Floats, rule: int, job: int, row: Row) -> tuple[int, float]:
    """The first candidate of a job, with its score; -1 for none. The job's columns are filled.

    Of equal scores a ready stage goes first, then the earlier one in the job's order.
    """
    found, highest, found_ready, before = NO_STAGE, 0.0, 0.0, 0
    fixed, tested = world.jobs[job], int(p[rule + _TESTED])
    for stage in range(fixed.first_stage, fixed.first_stage + fixed.n_stages):
        if may_pick(state, stage):
            fill_stage(world, state, stage, before, tested, row)
            before += 1
            score = _score(p, int(p[rule + _TREE_AT]), row)
            if found == NO_STAGE or score > highest or (score == highest and row[READY] > found_ready):
                found, highest, found_ready = stage, score, row[READY]
    return int(found), highest


@kernel(DECIDER)
def decide_by_tree(world: DagWorld, state: DagState, p: Floats) -> int:
    """Picks the candidate with the highest score of a job with room, and fills that room.

    Ties go to the job with less work, then to the stage with tasks that can start at once, then to the job that arrived
    first. A candidate with a score below 0 is skipped, except where nothing runs any more. A job with stranded
    executors goes before all others, whatever its score and its number of executors.
    """
    clock, executors = state.clock[0], world.settings[0].executors
    row = p[int(p[_ROW_AT]) : int(p[_ROW_AT]) + _WIDTH]
    weights = p[int(p[_ROW_AT]) + _WIDTH :]
    rule = range_at(p, clock.n_active / executors)
    usual, tested, power = p[rule + _USUAL] > 0.0, int(p[rule + _TESTED]), p[rule + _POWER]
    fill_load(world, state, usual, tested, row)
    total_s, least_s = row[WORK_SHARE], row[WORK_TIMES_LEAST]
    scale = p[rule + _FACTOR] * executors / _weigh(state, usual, power, weights)
    most = max(1, math.ceil(p[rule + _MOST] * executors))
    lowest = 0.0 if clock.n_heap > 0 else -math.inf
    stage = _stranded_stage(world, state)
    if stage != NO_STAGE:
        job = world.stages[stage].job
        cap = min(most, _cap(state, p, rule, job, scale * _weight(state, job, usual, power)))
        return decision(stage, _number(state, p, rule, stage, min(clock.free, cap)))
    tests_stages = tested & OF_A_STAGE != 0
    for is_lifted in range(2):
        if is_lifted and p[rule + _SPARE] == 0.0:
            break
        picked, picked_score, picked_work, picked_room = NO_STAGE, 0.0, 0.0, 0
        for place in range(clock.n_active):
            job = state.active[place]
            if not may_have(world, state, job):
                continue
            cap = executors
            if not is_lifted:
                weight = weights[place] if place < _STORED_WEIGHTS else _weight(state, job, usual, power)
                cap = min(most, _cap(state, p, rule, job, scale * weight))
            room = min(clock.free, under_limit(state, job, cap))
            if room < 1:
                continue
            fill_job(world, state, job, usual, tested, total_s, least_s, row)
            if tests_stages:
                stage, score = _best_stage(world, state, p, rule, job, row)
            else:
                stage, score = NO_STAGE, _score(p, int(p[rule + _TREE_AT]), row)
            work = row[WORK]
            is_worse = score < picked_score or (score == picked_score and work > picked_work)
            if score < lowest or (picked != NO_STAGE and is_worse):
                continue
            if not tests_stages:
                stage = first_stage_to_pick(world, state, job)
            if stage == NO_STAGE:
                continue
            is_alike = picked != NO_STAGE and score == picked_score and work == picked_work
            if is_alike and (is_ready(state, picked) or not is_ready(state, stage)):
                continue
            picked, picked_score, picked_work, picked_room = stage, score, work, room
        if picked != NO_STAGE:
            return decision(picked, _number(state, p, rule, picked, picked_room))
    return NOTHING
