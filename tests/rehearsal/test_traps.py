"""Detectors of traps, on made-up observations: what each needs, and what comes first."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.presets.detect import ScriptShape
from mirage.rehearsal import observer
from mirage.rehearsal.rehearse import judge, warning_of
from mirage.rehearsal.traps import REMEDIES, find_traps, saved_step
from mirage.rehearsal.two_runs import FileChange, FirstStep, ObservedProcess, ObservedRun, Rehearsal, read_run

INF = math.inf
SHELL = ObservedProcess(10, 1, "bash", "/bin/bash /spool/slurm_script", catches=("USR1",))
TRAINER = ObservedProcess(12, 10, "python3.11", "python3 train.py", catches=("USR1", "TERM"))
WORKER = ObservedProcess(13, 12, "python3.11", "python3 train.py", catches=("USR1", "TERM"))
TORCHRUN = ObservedProcess(11, 10, "python3.11", "python3 /opt/bin/torchrun train.py", catches=("TERM", "INT"))
DEEPSPEED = ObservedProcess(11, 10, "python3.11", "python3 /opt/bin/deepspeed train.py", catches=("TERM", "INT"))
STARTER = ObservedProcess(14, 10, "python3.11", "python3 start.py")
STEPD_TASK = replace(TRAINER, step="0", parent=9)

SHAPE = ScriptShape("", "none", False, ("USR1",), ("USR1",), True, ())


def run(job: int = 71, *, first: int = 1, gone_s: float = 103.0, killed_s: float = INF, **more: Any) -> ObservedRun:
    """A run with a step a second from 90 s, warned at 100 s, which leaves after a save."""
    processes = more.pop("processes", (SHELL, TRAINER, WORKER))
    until_s = more.pop("steps_until_s", 100)
    values: dict[str, Any] = {
        "job": job, "shell": 10, "output": f"/x-{job}.log", "signal": "USR1", "to_batch_shell": True,
        "signalled_s": 100.0, "killed_s": killed_s, "ended_s": gone_s,
        "samples": ((85.0, processes), (gone_s, more.pop("after", ()))),
        "files": (
            FileChange(95.0, "state/step-5", 40), FileChange(101.0, "state/part", 20),
            FileChange(102.0, "state/step-10", 40),
        ),
        "steps": tuple((90.0 + k, first + k) for k in range(int(until_s) - 90)),
    }  # fmt: skip
    return ObservedRun(**{**values, **more})


def rehearsal(first: ObservedRun, second: ObservedRun | None = None, **more: Any) -> Rehearsal:
    return Rehearsal(first, second or run(72, first=11), more.pop("shape", SHAPE), 2.0, **more)


def names(of: Rehearsal) -> list[str]:
    return [trap.name for trap in find_traps(of)]


KILLED: dict[str, Any] = {"killed_s": 108.0, "gone_s": 110.0}
NO_SAVE: dict[str, Any] = {"files": (FileChange(95.0, "state/step-5", 40),)}
EACH_SECOND = tuple(FileChange(90.2 + k + size / 400, "state/last", size) for k in range(18) for size in (0, 40))
DEAF = replace(SHELL, catches=(), ignores=("USR1",))
FOREGROUND = replace(SHAPE, in_background=False)
PLAIN = replace(SHAPE, traps=(), forwards=(), in_background=False)


@pytest.mark.parametrize(
    ("name", "observed"),
    [
        (
            "batch-shell-killed",
            rehearsal(run(processes=(replace(SHELL, catches=()), TRAINER), **NO_SAVE, gone_s=100.5)),
        ),
        ("signal-reaches-no-process", rehearsal(run(to_batch_shell=False, **KILLED, steps_until_s=108), shape=PLAIN)),
        ("trap-in-foreground", rehearsal(run(**KILLED, steps_until_s=108), shape=FOREGROUND)),
        ("launcher-killed-by-signal", rehearsal(run(processes=(SHELL, TORCHRUN, TRAINER), **NO_SAVE, gone_s=101))),
        (
            "workers-killed-after-30-s",
            rehearsal(
                run(processes=(SHELL, TORCHRUN, replace(TRAINER, parent=11)), **NO_SAVE, gone_s=131.0),
                shape=replace(SHAPE, forwards=("TERM",)),
            ),
        ),
        (
            "workers-killed-after-30-s",
            rehearsal(
                run(processes=(SHELL, TORCHRUN, TRAINER), gone_s=130.0), run(72, first=6),
                shape=replace(SHAPE, forwards=("TERM",)),
            ),
        ),
        (
            "launcher-ends-children",
            rehearsal(
                run(processes=(SHELL, DEEPSPEED, replace(TRAINER, parent=11)), **NO_SAVE, gone_s=100.8),
                shape=replace(SHAPE, forwards=("TERM",)),
            ),
        ),
        ("signal-read-too-late", rehearsal(run(**KILLED, **NO_SAVE))),
        ("save-longer-than-grace", rehearsal(run(**KILLED))),
        (
            "save-longer-than-grace",
            rehearsal(
                run(**KILLED, files=(FileChange(95.0, "part", 40, 7), FileChange(105.0, "part", 8, 9))),
                run(72, first=6),
            ),
        ),
        (
            "torn-checkpoint",
            rehearsal(
                run(**KILLED, files=(FileChange(95.0, "last", 40), FileChange(105.0, "last", 8))), run(72, first=6)
            ),
        ),
        (
            "torn-checkpoint",
            rehearsal(run(), run(72, first=1, lines=((91.0, "EOFError: Ran out of input"),), steps=())),
        ),
        ("no-handler", rehearsal(run(processes=(SHELL, replace(TRAINER, catches=())), **NO_SAVE, gone_s=100.2))),
        (
            "state-keyed-by-job",
            rehearsal(run(files=(FileChange(102.0, "state-71/step-10", 40),)), run(72, first=1)),
        ),
        ("not-resumed", rehearsal(run(), run(72, first=1))),
        ("resumed-from-older-checkpoint", rehearsal(run(), run(72, first=6))),
        ("log-truncated", rehearsal(run(), log_lost=True)),
        (  # the argument is no launcher
            "signal-read-too-late",
            rehearsal(run(processes=(SHELL, replace(TRAINER, command="python t.py torchrun")), **KILLED, **NO_SAVE)),
        ),
        (  # the wrapper sends TERM
            "no-handler",
            rehearsal(
                run(processes=(SHELL, replace(TRAINER, catches=("USR1",))), **KILLED, **NO_SAVE), shape=PLAIN,
                delivers="TERM",
            ),
        ),
        (  # the save at the end is a periodic one
            "no-handler",
            rehearsal(run(processes=(SHELL, replace(TRAINER, catches=())), **KILLED), shape=PLAIN, delivers="TERM"),
        ),
        (  # the script's own trap sends TERM
            "no-handler",
            rehearsal(
                run(processes=(SHELL, replace(TRAINER, catches=("USR1",))), **NO_SAVE, gone_s=100.2), run(72, first=6),
                shape=replace(SHAPE, forwards=("TERM",)),
            ),
        ),
        (  # a stop file needs no handler
            "signal-read-too-late",
            rehearsal(
                run(processes=(SHELL, replace(TRAINER, catches=())), **KILLED, **NO_SAVE), shape=PLAIN, delivers="file"
            ),
        ),
        (  # saves went on as before the warning
            "signal-read-too-late", rehearsal(run(**KILLED, steps_until_s=108, files=EACH_SECOND), run(72, first=18))
        ),
        (  # so they did, with steps that are longer than the grace, and nobody heard the warning
            "not-resumed",
            rehearsal(run(processes=(DEAF,), **KILLED, files=EACH_SECOND), run(72, first=1), shape=PLAIN),
        ),
        (  # a program that only starts the trainer
            "signal-read-too-late",
            rehearsal(run(processes=(SHELL, STARTER, replace(TRAINER, parent=14), WORKER), **KILLED, **NO_SAVE)),
        ),
        (
            "not-resumed",
            rehearsal(run(lines=((91.0, "span corruption"),)), run(72, first=1, lines=((91.0, "span corruption"),))),
        ),
        ("two-chains-in-one-directory", rehearsal(run(), foreign=(FileChange(104.0, "state/step-10", 40),))),
    ],
)  # fmt: skip
def test_a_trap_is_named_alone(name: str, observed: Rehearsal) -> None:
    assert names(observed) == [name]


@pytest.mark.parametrize(
    "observed",
    [
        rehearsal(run()),
        rehearsal(run(processes=(SHELL, STEPD_TASK), to_batch_shell=False), shape=PLAIN),
        rehearsal(run(), run(72, first=10)),
        rehearsal(run(), foreign=(FileChange(104.0, "elsewhere", 40),)),
        rehearsal(run(files=(FileChange(102.0, "notes.md", 40),)), foreign=(FileChange(104.0, "notes.md", 40),)),
        rehearsal(run(processes=(SHELL, TORCHRUN, replace(TRAINER, parent=11)))),
        rehearsal(run(files=(FileChange(102.0, "state-710/step-10", 40),))),
        rehearsal(run(files=(), saves=((102.0, 10),))),
        rehearsal(run(), run(72, first=11, lines=((91.0, "7 sequences were truncated"),))),
        rehearsal(run(samples=((85.0, (SHELL, TORCHRUN, TRAINER)), (103.0, (SHELL, TORCHRUN))), **KILLED)),
        rehearsal(run(files=(*run().files, *(FileChange(90.0 + k, "loss.log", 10 * k) for k in range(10))))),
    ],
)
def test_a_right_script_raises_no_alarm(observed: Rehearsal) -> None:
    assert names(observed) == []


def test_every_trap_has_a_name_of_its_own_and_a_remedy() -> None:
    assert len({name for name, _ in REMEDIES.values()}) == len(REMEDIES) == 15
    assert all(remedy for _, remedy in REMEDIES.values())


def test_the_lead_that_is_needed_is_the_longest_step_the_save_and_kill_wait() -> None:
    slow = run(steps=((90.0, 1), (94.5, 2), (95.5, 3), (100.0, 4)), saves=((101.8, 4),))
    result = judge(rehearsal(slow, run(72, first=5)))
    assert (result.longest_step_s, round(result.save_s, 1), result.lead_s) == (4.5, 1.8, 9)
    assert (result.saved, result.resumed, result.lost, result.passed) == (4, 5, 0, True)
    assert "python3.11 12: handles USR1, TERM; gone after 3.0 s" in result.way
    unknown = judge(rehearsal(run(steps=())))
    assert not unknown.passed
    assert math.isnan(unknown.lead_s)
    assert "no steps were found" in unknown.notes[0]


def test_a_job_that_ends_before_the_warning_has_not_passed() -> None:
    early = run(samples=((85.0, (SHELL, TRAINER)), (95.0, ())), steps_until_s=94, saves=((94.0, 4),))
    result = judge(rehearsal(early, run(72, first=5)))
    assert (result.traps, result.passed) == ((), False)
    assert result.way == ()
    assert result.notes == ("job 71 had ended before the warning: see /x-71.log, or give a shorter --after",)
    silent = judge(rehearsal(run(samples=((85.0, (SHELL, TRAINER)), (95.0, ())), steps=()), run(72, first=5)))
    assert "had ended before the warning, and showed no step" in silent.notes[0]
    assert "shorter" not in silent.notes[0]


def test_the_exit_status_of_a_job_that_fails_is_reported_with_what_it_means_for_a_chain() -> None:
    failed = "with exit status 3 (a chain pauses after three jobs in a row that fail so soon)"
    early = run(samples=((85.0, (SHELL, TRAINER)), (95.0, ())), steps_until_s=94, exit_code=3)
    (note,) = judge(rehearsal(early)).notes
    assert note == f"job 71 had ended {failed} before the warning: see /x-71.log, or give a shorter --after"
    assert judge(rehearsal(run(exit_code=75), run(72, first=43))).passed, "a job may leave a warning with any status"
    result = judge(rehearsal(run(exit_code=75), run(72, first=43, exit_code=3)))
    assert (result.traps, result.passed) == ((), False)
    assert result.notes == (f"job 72 had ended {failed}: see /x-72.log",)


def test_steps_of_a_process_of_the_first_job_are_not_those_of_the_second() -> None:
    result = judge(rehearsal(run(), run(72, first=43), outlived=True))
    assert (result.traps, result.resumed, result.passed) == ((), -1, False)
    assert len(result.notes) == 1
    assert "a process of job 71 still prints steps after its end, so the steps of job 72 are" in result.notes[0]


@pytest.mark.parametrize(("steps", "restart"), [((1, 2, 3, 1, 2, 3), True), ((1, 2, 1, 3, 2, 3), False)])
def test_steps_that_restart_in_each_epoch_prove_no_resume(steps: tuple[int, ...], restart: bool) -> None:
    first = run(steps=tuple((90.0 + k, step) for k, step in enumerate(steps)))
    result = judge(rehearsal(first, run(72, first=1)))
    assert [trap.name for trap in result.traps] == ([] if restart else ["not-resumed"])
    assert not result.passed
    assert any("restart, as in each epoch (from 3 to 1)" in note for note in result.notes) is restart


def test_a_batch_shell_that_ignores_the_warning_is_named() -> None:
    ignoring = run(processes=(replace(SHELL, catches=(), ignores=("USR1",)),), **KILLED, **NO_SAVE)
    assert "the batch shell of job 71 ignores USR1: let its trap pass the signal on" in judge(rehearsal(ignoring)).notes


def test_a_job_with_a_hidden_training_has_not_passed() -> None:
    hidden = run(processes=(SHELL,), **KILLED, **NO_SAVE, steps_until_s=108)
    result = judge(rehearsal(hidden, run(72, first=6), shape=PLAIN, delivers="USR2"))
    assert (result.traps, result.passed, result.resumed) == ((), False, 6)
    assert "no Python process of job 71 was observed" in result.notes[0]


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("python3 -m torch.distributed.run --standalone t.py", "torchrun"),
        ("/x/python -u -W ignore /x/bin/torchrun t.py", "torchrun"),
        ("python /x/torch/distributed/launch.py t.py", "torchrun"), ("python3 /x/accelerate-launch t.py", "accelerate"),
        ("python3 /x/accelerate launch t.py", "accelerate"), ("python3 -m deepspeed.launcher.launch t.py", "deepspeed"),
        ("python3 t.py --strategy deepspeed --x", ""), ("python3 -c torchrun x", ""),
        ("python3 /x/torchrun/t.py", ""),
    ],
)  # fmt: skip
def test_a_launcher_is_the_program_that_python_runs(command: str, launcher: str) -> None:
    assert ObservedProcess(1, 1, "python3.11", command).launcher == launcher
    assert ObservedProcess(1, 1, "srun", command).launcher == ""


def test_descendants_of_the_job_are_its_processes_whatever_their_environment() -> None:
    own = {os.getpid(): True, 2**30: True}
    with subprocess.Popen(["sleep", "20"], env={}) as child:
        found = observer._processes(b"MIRAGE_OBSERVED=absent", own)
        child.kill()
    assert child.pid in [process["pid"] for process in found]
    assert 2**30 not in own, "the number of a process that is gone may come again"


@pytest.mark.parametrize("home", ["agent", "lab/mirage-home"])
def test_files_of_the_agent_and_of_a_private_slurm_are_not_those_of_the_job(tmp_path: Path, home: str) -> None:
    record = tmp_path / "home" / home / "rehearsals" / "job.sh-1" / "record.4"
    other = tmp_path / "home" / "other-lab"
    (other / "mirage-home").mkdir(parents=True)
    own_log, checkpoint = tmp_path / "home" / home.partition("/")[0] / "log", tmp_path / "home" / "log" / "a.pt"
    for path in (record, other / "slurm.log", own_log, checkpoint):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert list(observer.files_below(str(tmp_path / "link"), "", str(record))) == ["log/a.pt"]


def test_a_log_that_grows_at_every_step_is_no_checkpoint() -> None:
    growing = tuple(FileChange(86.0 + k, "metrics.jsonl", 10 * k) for k in range(17))
    assert saved_step(run(files=growing)) == -1
    assert saved_step(run(files=(*growing, FileChange(97.5, "last.pt", 9)))) == 8
    assert saved_step(run(files=EACH_SECOND[1::2])) == 10, "a file that is written again at every step is one"


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (None, ("USR2", True, 120)), ("B:USR1@90", ("USR1", True, 90)), ("SIGTERM@30", ("TERM", False, 30)),
        ("R:USR1@60", ("USR1", False, 60)), ("RB:10", ("10", True, 60)), ("usr1", ("USR1", False, 60)),
    ],
)  # fmt: skip
def test_the_warning_is_that_of_the_user_or_of_a_chain(given: str | None, warning: tuple[str, bool, int]) -> None:
    assert warning_of(given, "USR2", 120) == warning


def test_a_record_is_read_with_its_steps_from_the_output_or_the_progress_file(tmp_path: Path) -> None:
    output = tmp_path / "o"
    entries: list[dict[str, Any]] = [
        {"time_s": 0, "shell": 5, "output": str(output), "place": 5},
        {"time_s": 1, "processes": [{"pid": 5, "parent": 1, "program": "bash", "command": "bash", "step": "",
                                     "catches": ["TERM"], "ignores": []}]},
        {"time_s": 2, "line": "{'loss': 1.2, 'global_step': 7}"}, {"time_s": 3, "line": "steps to do: 8"},
        {"time_s": 3, "line": "warm-up steps: 500"}, {"time_s": 3, "line": "Step: 10%| 2/20"},
        {"time_s": 4, "line": "Iteration   1,020/ 5000 | loss 3"}, {"time_s": 5, "file": "a/b", "size": 3, "inode": 9},
        {"time_s": 6, "over": True},
    ]  # fmt: skip
    record, progress = tmp_path / "record", tmp_path / "progress"
    record.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"time_s": 7, "li')
    found = read_run(record, progress, 7, ("USR1", True, 3.0), INF, 6.0)
    assert (found.steps, found.shell, found.output) == (((2, 7), (4, 1020)), 5, str(output))
    assert found.at(1.5)[0].catches == ("TERM",)
    assert found.files == (FileChange(5, "a/b", 3, 9),)
    output.write_text("past\nglobal_step=7\nb\nc\nd\niter 1,020\nstep 1021\n\nstep 1022")  # the last ones when it ended
    found = read_run(record, progress, 7, ("USR1", True, 3.0), INF, 6.0)
    assert found.steps == ((2, 7), (4, 1020), (6, 1021), (6, 1022))
    progress.write_text('{"time_s": 3, "step": 8}\n{"time_s": 4, "stop": "USR1"}\n{"time_s": 5, "saved": 9}\n')
    found = read_run(record, progress, 7, ("USR1", True, 3.0), INF, 6.0)
    assert (found.steps, found.saves) == (((3, 8),), ((5, 9),))


def test_the_first_step_is_found_while_the_record_grows_and_each_line_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, progress, parsed = tmp_path / "record", tmp_path / "progress", list[str]()
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: parsed.append(text) or loads(text))
    first = FirstStep(record, progress)
    assert first.time_s() is None
    record.write_text('{"time_s": 1, "line": "loading"}\n{"time_s": 2, "line": "step')
    assert [first.time_s(), first.time_s()] == [None, None]
    with record.open("a") as out:
        out.write(' 4"}\n{"time_s": 3, "line": "step 5"}\n')
    assert [first.time_s(), first.time_s()] == [2, 2]
    assert len(parsed) == 3
    progress.write_text('{"time_s": 7, "step": 8}\n')
    assert FirstStep(tmp_path / "absent", progress).time_s() == 7


def test_a_job_that_ends_while_its_files_are_listed_is_recorded_as_ended(tmp_path: Path) -> None:
    record, output = tmp_path / "record", tmp_path / "output"
    slow = "import time; from mirage.rehearsal import observer as o; o.files_below = lambda *_: time.sleep(0.8) or {}"
    with output.open("w") as out:
        job = subprocess.Popen(["sh", "-c", "sleep 0.4; echo step 1"], stdout=out)
    observer = subprocess.Popen(
        [sys.executable, "-c", f"{slow}; o.main(['', {str(record)!r}, 'mark', '{job.pid}'])"], cwd=tmp_path
    )
    assert (job.wait(), observer.wait()) == (0, 0)
    found = read_run(record, tmp_path / "progress", 7, ("USR2", True, INF), INF, INF)
    assert ([line for _, line in found.lines], len(found.samples)) == (["step 1"], 1)
    assert not replace(found, signalled_s=found.samples[0][0]).warned
