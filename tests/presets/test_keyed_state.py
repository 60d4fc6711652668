"""State that is named by a job's number, and the wait for the job before."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.presets.keyed_state import keyed_lines, submitit_folder, with_submitit_bridge
from mirage.presets.wrapper import LONGEST_WAIT_S, waiting_for_previous
from mirage.slurm.text.batch_script import directives

SUBMITIT = """#!/bin/bash

# Parameters
#SBATCH --error={folder}/%j_0_log.err
#SBATCH --signal=USR2@90

# command
export SUBMITIT_EXECUTOR=slurm
echo runs $SLURM_JOB_ID; false && srun --output {folder}/%j_%t_log.out python -u -m submitit.core._submit {folder}
"""


def script(folder: Path) -> bytes:
    return SUBMITIT.format(folder=folder).encode()


def test_a_later_job_finds_the_state_of_the_adopted_one(tmp_path: Path) -> None:
    (tmp_path / "41_submitted.pkl").write_text("state")
    assert submitit_folder(script(tmp_path)) == tmp_path
    bridged = with_submitit_bridge(script(tmp_path), 41)
    assert directives(bridged) == directives(script(tmp_path))
    for _ in range(2):  # a requeued job does it again
        environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "57"}
        done = subprocess.run(["bash", "-c", bridged.decode()], env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("runs 57\n", "")
    (tmp_path / "57_submitted.pkl").write_text("checkpoint")  # as submitit writes it, through the link
    assert (tmp_path / "41_submitted.pkl").read_text() == "checkpoint"


def test_a_state_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"submitit's state of job 41, .*41_submitted.pkl, is not there"):
        with_submitit_bridge(script(tmp_path), 41)


def test_lines_that_use_the_number_of_the_job() -> None:
    text = b"""#!/bin/bash
#SBATCH -o log.%j
# $SLURM_JOB_ID in a comment
OUT=/scratch/$SLURM_JOBID
srun --output=x.%j a.out
python t.py --run ${SLURM_JOB_ID}
python u.py $SLURM_JOB_NAME
srun -n 2 -ox.%j --error=y.%j a.out
srun -n 2 python t.py -o run-$SLURM_JOB_ID
srun --output x.%j python t.py --resume $SLURM_JOB_ID
"""
    assert [(line.number, line.is_log) for line in keyed_lines(text)] == [
        (2, True), (4, False), (5, True), (6, False), (8, True), (9, False), (10, False),
    ]  # fmt: skip


FORGOTTEN = "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"
UNREACHABLE = "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1"


@pytest.mark.parametrize(
    ("answers", "previous", "queries", "answer"),
    [
        (2, "41", 3, "echo RUNNING"), (0, "41", 1, ""), (9, "", 0, ""), (9, None, 0, ""), (9, "41", 1, FORGOTTEN),
        (2, "41", 3, UNREACHABLE),
    ],
)  # fmt: skip
def test_a_training_waits_until_the_job_before_it_has_left(
    tmp_path: Path, answers: int, previous: str | None, queries: int, answer: str
) -> None:
    counted = (
        f'echo "$@" >> {tmp_path}/called; [ $(wc -l < {tmp_path}/called) -gt {answers} ] || {{ {answer or ":"}; }}'
    )
    for name, body in (("squeue", counted), ("sleep", ":")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    text = waiting_for_previous(b"#!/bin/sh\n#SBATCH -n 1\necho trains\n").decode()
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    if previous is not None:
        environment["MIRAGE_PREVIOUS_JOB"] = previous
    assert subprocess.check_output(["sh", "-euc", text], env=environment, text=True) == "trains\n"
    called = (tmp_path / "called").read_text().splitlines() if queries else []
    assert called == ["-h -j 41 -t RUNNING,SUSPENDED,COMPLETING -o %T"] * queries


@pytest.mark.parametrize(
    ("answer", "has_end"),
    [
        ("echo RUNNING", False), ("echo SUSPENDED", False), ("echo COMPLETING", True), (UNREACHABLE, True),
        (f"case $(wc -l < slept) in 6?) {UNREACHABLE} ;; *) echo RUNNING ;; esac", False),
    ],
)  # fmt: skip
def test_a_wait_has_no_time_limit_only_for_a_job_that_runs(answer: str, has_end: bool, tmp_path: Path) -> None:
    """The pauses grow; here they are recorded in place of a sleep."""
    (tmp_path / "slept").touch()
    sleep = "echo $1 >> slept; [ $(wc -l < slept) -lt 100 ] || touch gone"
    for name, body in (("squeue", f"[ -e gone ] || {{ {answer}; }}"), ("sleep", sleep)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MIRAGE_PREVIOUS_JOB": "41"}
    text = waiting_for_previous(b"#!/bin/sh\necho trains\n").decode()
    assert subprocess.check_output(["sh", "-euc", text], env=environment, text=True, cwd=tmp_path) == "trains\n"
    slept_s = [int(line) for line in (tmp_path / "slept").read_text().splitlines()]
    assert slept_s[:6] == [2] * 5 + [3]
    assert max(slept_s) == 60
    assert (LONGEST_WAIT_S <= sum(slept_s) < 1.1 * LONGEST_WAIT_S) if has_end else len(slept_s) == 100
