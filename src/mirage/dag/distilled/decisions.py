"""Decisions of a teacher: the candidates, its preferences, and the picks of a tree.

The states are those that one scheduler reaches (the teacher, or the tree itself); the labels are always the teacher's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.dag.distilled.candidate_columns import FEATURES, READY, WORK, candidate_rows
from mirage.dag.distilled.tree_decider import uses_usual_work
from mirage.dag.schedulers.stage_schedulers import StageScheduler
from mirage.dag.simulator.dag_arrays import DagState, DagWorld
from mirage.dag.simulator.dag_event_loop import ENDED, NEEDS_DECISION, apply, next_decision
from mirage.dag.simulator.dag_world import initial_state
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, stage_of
from mirage.distill.ranking import Contests, margins
from mirage.errors import ContractBroken

MOST_CANDIDATES = 2_000
"""Largest number of candidates of a decision that are considered."""

LIKED = 1e-3
"""Margins are of the logarithm of probabilities; smaller probabilities count as this."""

Likings = Callable[[Floats, Ints], Floats]
"""From a scheduler's parameters after a decision, and stages, to the probability of each stage."""


@dataclass(frozen=True, slots=True)
class Teacher:
    """A scheduler to learn decisions from.

    Attributes:
        scheduler: The scheduler itself.
        likings: Its preference for each candidate; None if it only reports its pick.
        likeliest: For a scheduler that draws, its variant with the likeliest decision; None for all others.
    """

    scheduler: StageScheduler
    likings: Likings | None = None
    likeliest: StageScheduler | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of a teacher, and those of a tree in the same states.

    Attributes:
        contests: The candidates, with the teacher's likings; the group is the number of the episode.
        job: Shape (candidates,), the job of each.
        meant: Shape (decisions,), the candidate that the teacher gives executors to, counted within the decision; of a
            teacher that draws, its likeliest one, whatever it drew.
        executors: Shape (decisions,), the number that it gives to that candidate.
        picked: Shape (decisions,), the candidate that the tree picked, counted within the decision; -1 for none.
        given: Shape (decisions,), the number of executors that it gave.
    """

    contests: Contests
    job: Ints
    meant: Ints
    executors: Ints
    picked: Ints
    given: Ints


@dataclass
class _Collected:
    rows: list[Floats]
    job: list[Ints]
    liking: list[Floats]
    size: list[int]
    meant: list[int]
    executors: list[int]
    picked: list[int]
    given: list[int]
    group: list[int]


def decisions_of(
    teacher: Teacher,
    worlds: Sequence[DagWorld],
    *,
    states_of: StageScheduler,
    tree: StageScheduler,
) -> Decisions:
    """Runs episodes and records a teacher's decisions in the states that occur.

    Args:
        teacher: The scheduler to learn from.
        worlds: The episodes.
        states_of: The scheduler that runs the episodes.
        tree: A tree to compare; its rule selects the durations that give the work in the rows.

    Raises:
        ContractBroken: The scheduler that runs the episodes leaves jobs without executors.
    """
    found = _Collected([], [], [], [], [], [], [], [], [])
    for number, world in enumerate(worlds):
        _collect(found, teacher, world, states_of, tree, number)
    sizes = np.array(found.size)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    liking = np.concatenate(found.liking)
    weight = margins(np.log(np.maximum(liking, LIKED)), first)
    contests = Contests(FEATURES, np.concatenate(found.rows), first, liking, weight, np.array(found.group))
    each = (found.meant, found.executors, found.picked, found.given)
    counts = (np.array(column, dtype=np.int64) for column in each)
    return Decisions(contests, np.concatenate(found.job), *counts)


def _collect(
    found: _Collected, teacher: Teacher, world: DagWorld, states_of: StageScheduler, tree: StageScheduler, group: int
) -> None:
    seed = group + 1
    parameters, plays, judged = (one.parameters_for(seed) for one in (teacher.scheduler, states_of, tree))
    likeliest = None if teacher.likeliest is None else teacher.likeliest.parameters_for(seed)
    state = initial_state(world)
    room, stages = np.zeros((MOST_CANDIDATES, len(FEATURES))), np.zeros(MOST_CANDIDATES, dtype=np.int64)
    answer = next_decision(world, state)
    while answer == NEEDS_DECISION:
        wanted = int(teacher.scheduler.decider(world, state, parameters))
        does = wanted if states_of is teacher.scheduler else int(states_of.decider(world, state, plays))
        other = does if tree is states_of else int(tree.decider(world, state, judged))
        usual = uses_usual_work(judged, state.clock[0].n_active / world.settings[0].executors)
        count = int(candidate_rows(world, state, room, stages, usual))
        if wanted != NOTHING and count:
            meant = wanted if likeliest is None else int(teacher.scheduler.decider(world, state, likeliest))
            _write(found, teacher, parameters, world, state, wanted, meant, other, room[:count], stages[:count])
            found.group.append(group)
        answer = apply(world, state, does)
    if answer != ENDED:
        raise ContractBroken(f"the scheduler {states_of.name} left jobs without executors, or made an invalid pick")


def _write(
    found: _Collected,
    teacher: Teacher,
    parameters: Floats,
    world: DagWorld,
    state: DagState,
    wanted: int,
    meant: int,
    other: int,
    rows: Floats,
    stages: Ints,
) -> None:
    """Records one decision, its candidates in the order in which a tree breaks ties."""
    order = np.lexsort((-rows[:, READY], rows[:, WORK]))
    there = stages[order]
    is_wanted = (there == stage_of(wanted)).astype(np.float64)
    found.rows.append(rows[order])
    found.job.append(world.stages.job[there])
    found.liking.append(is_wanted if teacher.likings is None else teacher.likings(parameters, there))
    found.size.append(len(there))
    found.meant.append(_place(there, meant))
    found.executors.append(_taken(state, meant))
    found.picked.append(_place(there, other))
    found.given.append(_taken(state, other))


def _place(stages: Ints, decided: int) -> int:
    """The candidate that a decision picks; -1 for none of them."""
    found = np.flatnonzero(stages == stage_of(decided)) if decided != NOTHING else stages[:0]
    return int(found[0]) if len(found) else -1


def _taken(state: DagState, decided: int) -> int:
    """The number of executors that a stage takes of those offered."""
    if decided == NOTHING:
        return 0
    demand = int(state.stages[stage_of(decided)].demand)
    return min(int(executors_of(decided)), demand, int(state.clock[0].free))


@dataclass(frozen=True, slots=True)
class StudentFidelity:
    """The agreement of a tree with its teacher, as shares of decisions.

    Attributes:
        decisions: Their number.
        stage: It picks the teacher's favourite stage,
        job: or at least a stage of that job.
        executors: It gives as many executors as the teacher, among the decisions in which both give them to the same
            stage; 1 where there are none. For a teacher that draws, the likeliest decision counts: its favourite stage,
            and its favourite number for that stage; a number that it drew for another stage does not matter here.
        probability: Mean probability with which the teacher picks the tree's stage.
        most: The same of the teacher's favourite, the value of a perfect tree.
        choices: Number of decisions with more than one candidate.
        stage_of_choices: Share of these in which the tree picks the favourite.
    """

    decisions: int
    stage: float
    job: float
    executors: float
    probability: float
    most: float
    choices: int
    stage_of_choices: float


def fidelity(recorded: Decisions) -> StudentFidelity:
    """The fidelity of a tree to its teacher in recorded decisions."""
    contests = recorded.contests
    favourite = contests.winners(contests.liking)
    chose = recorded.picked >= 0
    mine = contests.first + np.maximum(recorded.picked, 0)
    is_stage = chose & (mine == favourite)
    is_job = chose & (recorded.job[mine] == recorded.job[favourite])
    has_choice = contests.sizes > 1
    return StudentFidelity(
        decisions=len(favourite),
        stage=float(is_stage.mean()),
        job=float(is_job.mean()),
        executors=_share(recorded.given == recorded.executors, chose & (recorded.picked == recorded.meant)),
        probability=float(np.where(chose, contests.liking[mine], 0.0).mean()),
        most=float(contests.liking[favourite].mean()),
        choices=int(has_choice.sum()),
        stage_of_choices=_share(is_stage, has_choice),
    )


def _share(
    right: np.ndarray[tuple[int], np.dtype[np.bool_]], among: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> float:
    return float(right[among].mean()) if among.any() else 1.0
