"""Data of a submitted job that the simulator does not store."""

from __future__ import annotations

import pytest

from mirage.job_state import MISSING, JobState
from mirage.lab.virtual.batch_request import BatchRequest, StartCondition
from mirage.lab.virtual.program import Program
from mirage.lab.virtual.virtual_job import VirtualJob
from mirage.slurm.records import Submission


def job(program: Program, comment: str = "", start_s: int = MISSING, **options: str | None) -> VirtualJob:
    request = BatchRequest("job.sh", comment, "", 0, "", 1, 0, 1, 600, 0, False, StartCondition())
    submission = Submission("job.sh", options, ("a", "-b"))
    return VirtualJob(
        7, request, submission, program, "job.sh", comment, 0, 600, 0, StartCondition(5), True, start_s=start_s
    )


@pytest.mark.parametrize(
    ("start_s", "end_s", "now_s", "comment"),
    [
        (MISSING, MISSING, 500, "c | note"),
        (100, MISSING, 109, "c | note"),
        (100, MISSING, 110, "c ready | note"),
        (100, MISSING, 500, "c ready left | note"),
        (100, 119, 500, "c ready | note"),
        (100, 120, 500, "c ready left | note"),
    ],
)
def test_words_are_added_in_the_run_once_and_in_their_order(start_s: int, end_s: int, now_s: int, comment: str) -> None:
    one = job(Program(words=((10, "ready"), (20, "left"))), "c | note", start_s)
    if end_s != MISSING:
        one.end(JobState.COMPLETED, end_s)
    one.speak(now_s)
    one.speak(now_s)
    assert one.comment == comment


def test_an_end_takes_away_what_the_job_waited_for() -> None:
    one = job(Program())
    assert not one.over
    one.end(JobState.FAILED, 50, (3, 0))
    assert (one.over, one.outcome, one.end_s, one.exits, one.wait, one.held) == (
        True, JobState.FAILED, 50, (3, 0), StartCondition(), False
    )  # fmt: skip


def test_the_line_that_made_it() -> None:
    options: dict[str, str | None] = {"time": "1-0", "hold": None, "job-name": "x y"}
    assert job(Program(), **options).submit_line == "sbatch --parsable --time=1-0 --hold --job-name=x y job.sh a -b"
    assert job(Program()).submit_line == "sbatch --parsable job.sh a -b"
