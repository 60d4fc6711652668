"""Signs that the jobs of other users are hidden."""

from __future__ import annotations

import pytest

from mirage.job_state import JobState
from mirage.slurm.hidden_jobs import hidden_jobs, unexplained_nodes
from mirage.slurm.records import Machine, Node, Queue, QueuedJob


def job(number: int, user: str = "ada", nodelist: str = "") -> QueuedJob:
    return QueuedJob(number, JobState.RUNNING, user=user, nodelist=nodelist)


def machine(*states: str) -> Machine:
    return Machine(tuple(Node(f"n{k}", state, True, 64, 0, ("main",)) for k, state in enumerate(states)), ())


@pytest.mark.parametrize(
    ("private", "jobs", "states", "sign"),
    [
        ("none", (), ("idle", "idle"), ""),
        ("jobs,usage", (), ("idle",), "PrivateData=jobs,usage"),
        ("all", (job(1),), ("allocated",), "PrivateData=all"),
        ("accounts,usage", (job(1, nodelist="n0"),), ("allocated", "idle"), ""),
        ("jobs", (job(1), job(2, "eve")), ("mixed",), ""),  # an operator sees all
        ("", (job(1, nodelist="n0"),), ("mixed", "allocated", "allocated+", "mixed"), "3 of 4 nodes in use have no"),
        ("", (job(1, nodelist="n[0-1]"),), ("mixed", "allocated", "mixed", "idle"), ""),  # one may have just ended
        ("", (job(1, nodelist="n[0-2]"),), ("mixed",) * 6, ""),  # half of them
        ("", (job(1, "eve"),), ("mixed",) * 6, ""),
        ("", (job(1, nodelist="n[2-"),), ("mixed",) * 6, "6 of 6"),
    ],
)
def test_signs(private: str, jobs: tuple[QueuedJob, ...], states: tuple[str, ...], sign: str) -> None:
    options = {"privatedata": private} if private else {}
    queue = Queue(5, jobs)
    found = hidden_jobs(options, queue, "ada", unexplained_nodes(machine(*states), queue, "ada"))
    assert found.startswith(sign)
    assert bool(found) == bool(sign)
