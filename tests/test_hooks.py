"""A training script notices a stop wherever it comes, and reports what it did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mirage

SOURCE = Path(mirage.__file__).with_name("hooks.py")
"""Not imported here: it would handle the signals of the process that runs the tests."""


def run(program: str, folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """A script next to a copy of the hooks: nothing of Mirage is installed there."""
    (folder / "hooks.py").write_text(SOURCE.read_text())
    (folder / "program.py").write_text(program)
    environment = {"PATH": os.environ["PATH"], "MIRAGE_TEST_PROCESS": os.environ["MIRAGE_TEST_PROCESS"], **variables}
    return subprocess.Popen(
        [sys.executable, "program.py", *words], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


def entries(path: Path) -> list[dict[str, float | str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


PHASES = """
import os, sys, time
from hooks import progress, saved, should_stop

def busy(phase):
    if sys.argv[1] == phase:
        print("now", flush=True)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        if phase == "compile":
            sum(range(200_000))
        else:
            time.sleep(0.01)

busy("compile")
busy("warm-up")
step = 0
while step < 50:
    step += 1
    time.sleep(0.01)
    progress(step)
    if step % 10 == 0:
        busy("evaluation")
    if step % 10 == 5 or should_stop():
        busy("save")
        saved(step)
    if should_stop():
        print("left", step, flush=True)
        sys.exit(0)
print("missed", flush=True)
"""


@pytest.mark.parametrize("name", ["USR1", "USR2", "TERM"])
@pytest.mark.parametrize("phase", ["compile", "warm-up", "evaluation", "save"])
def test_a_signal_in_any_phase_ends_the_training_within_a_checkpoint_interval(
    phase: str, name: str, tmp_path: Path
) -> None:
    with run(PHASES, tmp_path, phase, MIRAGE_PROGRESS_FILE=str(tmp_path / "progress")) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "now\n"
        child.send_signal(getattr(signal, f"SIG{name}"))
        word, step = child.stdout.readline().split()[:2]
    assert (word, child.returncode) == ("left", 0)
    assert int(step) <= {"compile": 1, "warm-up": 1, "evaluation": 10, "save": 5}[phase]
    records = entries(tmp_path / "progress")
    assert [record["stop"] for record in records if "stop" in record] == [name]
    assert [record["saved"] for record in records if "saved" in record][-1] == int(step)


def test_a_stop_file_requests_a_stop(tmp_path: Path) -> None:
    program = (
        "import time\nfrom hooks import should_stop\nprint(should_stop(), flush=True)\n"
        "input()\ntime.sleep(1.1)\nprint(should_stop())"
    )
    file = tmp_path / "stop"
    (tmp_path / "hooks.py").write_text(SOURCE.read_text())
    child = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={"MIRAGE_STOP_FILE": str(file)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "False\n"
    file.touch()
    assert child.communicate("\n")[0] == "True\n"


@pytest.mark.parametrize(
    ("job", "file", "stops", "remains"),
    [
        ("77", ".mirage-stop-77", "True", "100.0"),
        ("78", ".mirage-stop-77", "False", "inf"),
        ("78", "stop", "True", "inf"),
        ("", ".mirage-stop-77", "True", "100.0"),
    ],
)
def test_a_job_that_a_wrapped_job_has_submitted_does_not_stop_with_it(
    tmp_path: Path, job: str, file: str, stops: str, remains: str
) -> None:
    (tmp_path / file).touch()
    inherited = {
        "MIRAGE_WRAPPED": "77-x", "MIRAGE_STOP_FILE": str(tmp_path / file),
        "MIRAGE_JOB_END_TIME": str(time.time() + 100), "SLURM_JOB_ID": job,
    }  # fmt: skip
    program = "from hooks import remaining_s, should_stop\nprint(should_stop(), round(remaining_s(), -1))"
    assert run(program, tmp_path, **inherited).communicate()[0].split() == [stops, remains]


def test_the_end_of_the_job_requests_a_stop_only_with_a_lead(tmp_path: Path) -> None:
    program = (
        "from hooks import remaining_s, should_stop\n"
        "print(round(remaining_s(), -1), should_stop(50), should_stop(), should_stop(150), should_stop(0))"
    )
    ends_s = str(time.time() + 100)
    answers = [
        run(program, tmp_path, **variables).communicate()[0].split()
        for variables in (
            {"SLURM_JOB_END_TIME": ends_s, "MIRAGE_JOB_END_TIME": "0"},
            {"MIRAGE_JOB_END_TIME": ends_s},
            {"MIRAGE_JOB_END_TIME": ends_s, "MIRAGE_LEAD_S": "120"},
            {"SLURM_JOB_END_TIME": "soon"},
        )
    ]
    assert answers == [
        ["100.0", "False", "False", "True", "True"],
        ["100.0", "False", "False", "True", "True"],
        ["100.0", "False", "True", "True", "True"],
        ["inf", "False", "False", "False", "False"],
    ]


@pytest.mark.parametrize(("text", "complains"), [("2m", True), ("-5", True), ("nan", True), ("60", False), ("", False)])
@pytest.mark.parametrize("variable", ["MIRAGE_LEAD_S", "SLURM_JOB_END_TIME"])
def test_a_variable_that_is_no_number_of_seconds_is_reported_once(
    tmp_path: Path, variable: str, text: str, complains: bool
) -> None:
    program = "import sys\nsys.stderr = sys.stdout\nhooks.should_stop(5), hooks.should_stop(), hooks.remaining_s()"
    printed = run(f"import hooks\n{program}", tmp_path, **{variable: text}).communicate()[0]
    complaint = f"mirage.hooks: {variable}={text} is ignored: it is no number of seconds\n"
    assert printed == (complaint if complains else "")


def test_a_handler_of_the_script_is_called_after_the_flag_is_set(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('own', hooks.should_stop()))\n"
        "import hooks\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
    )
    assert run(program, tmp_path).communicate()[0] == "own True\n"


def test_an_import_in_another_thread_is_reported(tmp_path: Path) -> None:
    program = "import importlib, sys, threading\nsys.stderr = sys.stdout\n"
    printed = run(f"{program}threading.Thread(target=importlib.import_module, args=['hooks']).start()", tmp_path)
    assert printed.communicate(timeout=30)[0] == (
        "mirage.hooks cannot handle signals: import it in the main thread, first of all\n"
    )


def test_a_forked_worker_ignores_the_stop_but_can_be_terminated(tmp_path: Path) -> None:
    program = (
        "import hooks, os, signal, time\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    time.sleep(30)\n"
        "time.sleep(0.2)\n"
        "os.kill(child, signal.SIGUSR2)\n"
        "time.sleep(0.2)\n"
        "print(os.waitpid(child, os.WNOHANG)[0])\n"
        "os.kill(child, signal.SIGTERM)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert run(program, tmp_path).communicate()[0].split() == ["0", str(int(signal.SIGTERM))]


def test_only_the_first_rank_reports_and_the_longest_step_leaves_out_saves(tmp_path: Path) -> None:
    program = (
        "import time, hooks\nfrom hooks import *\nfrom hooks import longest_step_s\nhooks.FILE_EVERY_S = 30\n"
        "progress(1); time.sleep(0.1); progress(2); time.sleep(0.2); saved(2); time.sleep(1); progress(3)\n"
        "print(0.1 <= longest_step_s() < 1)"
    )
    for rank in ("0", "1"):
        path = str(tmp_path / f"progress{rank}")
        assert run(program, tmp_path, RANK=rank, MIRAGE_PROGRESS_FILE=path).communicate()[0] == "True\n"
    assert [e.get("step", e.get("saved")) for e in entries(tmp_path / "progress0")] == [1, 2]
    assert not (tmp_path / "progress1").exists()


def test_a_progress_file_that_cannot_be_written_does_not_end_the_training(tmp_path: Path) -> None:
    program = "from hooks import progress\nprogress(1)\nprint('alive')"
    assert run(program, tmp_path, MIRAGE_PROGRESS_FILE="/nowhere/progress").communicate()[0] == "alive\n"


def test_the_import_loads_little() -> None:
    program = "import sys, mirage.hooks; print(*{'typing', 're', 'json', 'subprocess', 'logging'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(SOURCE.parents[1])})  # fmt: skip
    assert done.stdout == "\n"


def test_one_rank_alone_needs_no_agreement(tmp_path: Path) -> None:
    program = "from hooks import any_rank\nprint(any_rank(True), any_rank(False))"
    assert run(program, tmp_path).communicate()[0] == "True False\n"


TAKES_OVER = """
import os
os.environ.setdefault("MIRAGE_CHAIN", "train")
from hooks import take_over
print("checkpoint", take_over("--progress-file", "ckpt/*"), flush=True)
"""


def taking_over(folder: Path, command: str, **variables: str) -> subprocess.Popen[str]:
    """A rank of job 7 with a ``mirage`` that is a shell command."""
    (folder / "mirage").write_text(f"#!/bin/sh\n{command}\n")
    (folder / "mirage").chmod(0o755)
    known = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    return run(TAKES_OVER, folder, **{**known, **variables})


def test_every_rank_takes_over_with_the_first(tmp_path: Path) -> None:
    second = taking_over(tmp_path, "echo $*; echo x >> ran", RANK="1", WORLD_SIZE="2")
    first = taking_over(tmp_path, "echo $*; echo x >> ran", RANK="0", WORLD_SIZE="2")
    for rank in (first, second):
        assert rank.communicate(timeout=30)[0] == "checkpoint link takeover --progress-file ckpt/*\n"
        assert rank.returncode == 0
    assert (tmp_path / "ran").read_text() == "x\n", "one command for all ranks"


def test_results_of_earlier_jobs_are_removed(tmp_path: Path) -> None:
    for name, age_s in ((".mirage-takeover-5-0-1", 90_000), (".mirage-takeover-6-0-1", 10)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s, time.time() - age_s))
    assert taking_over(tmp_path, "echo 1", WORLD_SIZE="2").communicate(timeout=30)[0] == "checkpoint 1\n"
    assert {path.name[17] for path in tmp_path.glob(".mirage*")} == {"6", "7"}


def test_no_rank_trains_where_the_job_may_not_take_over(tmp_path: Path) -> None:
    ranks = [taking_over(tmp_path, "exit 1", RANK=rank, WORLD_SIZE="2") for rank in "01"]
    for rank in ranks:
        assert (rank.communicate(timeout=30)[0], rank.returncode) == ("", 75)


def test_one_rank_leaves_no_file_and_outside_of_a_chain_nothing_waits(tmp_path: Path) -> None:
    alone = taking_over(tmp_path, "echo 10")
    assert alone.communicate(timeout=30)[0] == "checkpoint 10\n"
    assert not list(tmp_path.glob(".mirage*"))
    outside = run("from hooks import take_over\nprint(repr(take_over()))", tmp_path, SLURM_JOB_ID="7")
    assert outside.communicate(timeout=30)[0] == "''\n"


def test_outside_of_a_chain_every_rank_gets_the_newest_checkpoint_at_once(tmp_path: Path) -> None:
    for rank in "10":
        found = taking_over(tmp_path, "echo $*", MIRAGE_CHAIN="", RANK=rank, WORLD_SIZE="2")
        assert found.communicate(timeout=30)[0] == "checkpoint link takeover --no-wait --progress-file ckpt/*\n"
    assert not list(tmp_path.glob(".mirage*"))


def test_a_job_that_is_warned_while_it_waits_leaves(tmp_path: Path) -> None:
    waits = taking_over(tmp_path, "echo now > began; exec sleep 60")
    end_s = time.monotonic() + 20
    while not (tmp_path / "began").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    waits.send_signal(signal.SIGUSR2)
    assert (waits.communicate(timeout=30)[0], waits.returncode) == ("", 75)
