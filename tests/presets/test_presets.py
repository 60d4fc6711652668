"""Presets: values with sources, found in a script, set where the user gave nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mirage.cli.commands.chain.framework_option import NAMES
from mirage.errors import ConfigurationError
from mirage.presets.apply import AppliedPreset, apply_preset
from mirage.presets.detect import own_next_job, shape_of
from mirage.presets.preset import FILE, NOTHING, preset_named, presets
from mirage.presets.wrapper import LEFT_ON_WARNING, is_shell_script, waiting_for_previous, wrapped
from mirage.slurm.text.batch_script import directives
from tests.support.waiting import until


def test_the_option_lists_every_preset() -> None:
    assert sorted(NAMES.split()) == sorted(presets())


@pytest.mark.parametrize("name", list(presets()))
def test_a_preset_has_a_source_and_a_version_for_each_value(name: str) -> None:
    preset = presets()[name]
    for value in (preset.signal, preset.lead, preset.mark, preset.requeue):
        assert value.source
        assert value.tried
    word = preset.signal.value
    assert word in (FILE, NOTHING) or hasattr(signal, f"SIG{word}")
    assert 60 <= preset.lead_s <= 600


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"keras: there is no such preset; choose from .*hf, lightning"):
        preset_named("keras")


CASES = {
    "torchrun --nproc-per-node 4 hf.py": ("hf", "torchrun"),
    "python -m torch.distributed.run \\\n  hf.py": ("hf", "torchrun"),
    "accelerate launch hf.py": ("hf", "accelerate"),
    "srun python lit.py": ("lightning", "srun"),
    "srun torchrun lit.py": ("lightning", "torchrun"),
    "deepspeed hf.py": ("hf", "deepspeed"),
    "# from a comment: torchrun hf.py\npython plain.py": ("", "none"),
    "exec vllm serve model --port 8000": ("vllm", "none"),
    "python -m sglang.launch_server --model m": ("sglang", "none"),
    "/opt/llama.cpp/llama-server -m model": ("llama-cpp", "none"),
    "python pretrain_gpt.py --save x": ("megatron", "none"),
    "axolotl train config.yaml": ("axolotl", "none"),
    "python hooked.py": ("python", "none"),
    "python absent.py": ("", "none"),
    "accelerate-launch hf.py": ("hf", "accelerate"),
    'cd x && python "a folder/lit.py"': ("lightning", "none"),
    "python -u -m jobs.lit": ("lightning", "none"),
    "CODE=$SLURM_SUBMIT_DIR/jobs\nsrun python ${CODE}/lit.py": ("lightning", "srun"),
    "echo torchrun hf.py # torchrun hf.py": ("", "none"),
    "cat <<'END' > run.sh\ntorchrun hf.py\n\tEND\nEND\npython plain.py": ("", "none"),
    "apptainer exec image.sif bash -c 'cd x\n torchrun hf.py'": ("hf", "torchrun"),
}


@pytest.mark.parametrize("line", CASES)
def test_framework_and_launcher_are_found_with_the_line_that_shows_them(line: str, tmp_path: Path) -> None:
    (tmp_path / "hf.py").write_text("import os\nfrom transformers import Trainer\n")
    for folder in (tmp_path, tmp_path / "jobs", tmp_path / "a folder"):
        folder.mkdir(exist_ok=True)
        (folder / "lit.py").write_text("import lightning.pytorch as pl\n")
    (tmp_path / "plain.py").write_text("# from transformers import Trainer\nprint('import lightning')\n")
    (tmp_path / "hooked.py").write_text("from mirage.hooks import should_stop\n")
    shape = shape_of(f"#!/bin/bash\n#SBATCH -t 5\n{line}\n".encode(), tmp_path)
    assert (shape.framework, shape.launcher) == CASES[line]
    if shape.framework == "hf":
        assert "line 2 of hf.py, from transformers import Trainer" in shape.reasons[-1]


@pytest.mark.parametrize(
    ("text", "traps", "background"),
    [
        ("trap 'kill -USR2 $pid' USR2\npython t.py & pid=$!\nwait $pid", ("USR2",), True),
        (
            "leave() { trap '' USR2; kill -USR2 $pid; }\ntrap leave USR2\npython t.py & pid=$!\nwait $pid",
            ("USR2",),
            True,
        ),
        ("trap 'kill $pid' SIGUSR1 TERM\npython t.py", ("USR1", "TERM"), False),
        ("trap '' USR2\npython t.py 2>&1 && echo done", (), False),
        ("trap - USR2\npython t.py &> log", (), False),
        ("trap '\n  echo late\n  kill -USR1 $pid\n' USR1\npython t.py & pid=$!\nwait $pid", ("USR1",), True),
        ("set -e; trap -- leave 10; python 'a & b.py'; wait", ("USR1",), False),
        ('if true; then trap "x # y" sigterm || exit; fi; curl "http://x/?a&b" | cat 2>&1; wait', ("TERM",), False),
        ("x=${#list[@]} y=$((1 << 2)) z=$(f; trap 'x' USR2)\ntrap x TERM", ("TERM",), False),
        ("cat <<-A <<B\ntrap x USR1\n\tA\ntrap x USR2\nB\ntrap x HUP", ("HUP",), False),
    ],
)
def test_traps_and_background_children_are_found(
    text: str, traps: tuple[str, ...], background: bool, tmp_path: Path
) -> None:
    shape = shape_of(f"#!/bin/bash\n{text}\n".encode(), tmp_path)
    assert (shape.traps, shape.in_background) == (traps, background)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("trap 'kill $pid' USR1", ("TERM",)), ("trap 'kill -- -$pid' USR1", ("TERM",)), ("kill -10 $pid", ("USR1",)),
        ("kill -s SIGTERM $pid", ("TERM",)), ("kill -0 $pid; pkill -USR2 -P $$", ("USR2",)), ("kill -l", ()),
        ("scancel --signal=USR1 $SLURM_JOB_ID", ("USR1",)), ("scancel 7", ()), ("do-kill -HUP 7", ()),
        ("leave() {\n  kill -INT $pid\n}\ntrap leave USR1", ("INT",)),
    ],
)  # fmt: skip
def test_the_signals_that_a_script_sends_are_found(text: str, sent: tuple[str, ...], tmp_path: Path) -> None:
    assert shape_of(f"#!/bin/bash\n{text}\n".encode(), tmp_path).forwards == sent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python t.py\nsbatch $0", "line 3 of the script, sbatch $0, starts"),
        ('python t.py && /opt/bin/sbatch -N 2 "$0" "$@"', "line 2 of the script, /opt/bin/sbatch -N 2 $0 $@"),
        ('sbatch -d "afterany:$SLURM_JOB_ID" "$(basename "$0")"', "line 2"), ("sbatch ${BASH_SOURCE[0]}", "line 2"),
        ("cd x; sbatch jobs/job.sh 7", "line 2"), ("sbatch < ${0##*/}", "line 2"), ("sbatch ${0%.sh}.sh", "line 2"),
        ("trap 'scontrol requeue $SLURM_JOB_ID' USR1\nwait", "line 2 of the script, trap scontrol requeue"),
        ("ssh login sbatch ~/job.sh", "line 2"), ("next() {\n  scontrol requeue ${SLURM_JOBID}\n}", "line 3"),
        ("# sbatch $0", ""), ("echo sbatch $0", ""), ("sbatch other.sh", ""), ("sbatch my-job.sh", ""),
        ("sbatch -o $0.log other.sh", ""), ("scontrol requeue 7", ""), ("cat << END\nsbatch $0\nEND", ""),
        ("sbatch other.sh; python job.sh", ""), ("sbatch jobXsh", ""), ("no-sbatch $0", ""),
    ],
)  # fmt: skip
def test_a_script_that_starts_the_next_job_itself_is_found(text: str, shown: str) -> None:
    found = "".join(own_next_job(f"#!/bin/bash\n{text}\n".encode(), "job.sh"))
    assert found.startswith(shown) if shown else not found


def test_a_line_has_its_number_in_the_file(tmp_path: Path) -> None:
    script = b"#!/bin/bash\nsrun a \\\n  b\ncat << END\n\nEND\nx='\n'\ntorchrun \\\n  absent.py\n"
    assert shape_of(script, tmp_path).reasons == ("launcher torchrun: line 9 of the script, torchrun absent.py",)


def applied(text: str = "torchrun train.py", given: Any = None, **more: Any) -> AppliedPreset:
    script = f"#!/bin/bash\n#SBATCH -t 60\n{text}\n".encode()
    shape = shape_of(script, Path("/nowhere"))
    words = {"limit_s": 3600, "grace_s": None, "signal_given": False, "preset": "hf", **more}
    preset, limit_s = presets()[words.pop("preset")], words.pop("limit_s")
    return apply_preset(preset, shape, script, given or {}, limit_s, **words)


def test_two_trainings_could_run_at_once_where_no_shell_can_wait() -> None:
    script, words = b"#!/usr/bin/env python3\ntrain()\n", {"grace_s": None, "signal_given": False}
    shape = shape_of(script, Path("/nowhere"))
    with pytest.raises(ConfigurationError, match="start the training from a script with #!/bin/bash"):
        apply_preset(presets()["python"], shape, script, {}, 3600, **words)
    assert apply_preset(presets()["python"], shape, script, {}, 3600, never_two=True, **words).script == script
    assert apply_preset(presets()["vllm"], shape, script, {}, 3600, **words).script == script


def test_a_preset_sets_what_the_user_has_not_given() -> None:
    result = applied()
    assert result.options == {"no-requeue": None, "open-mode": "append"}
    assert (result.grace_s, result.signal, result.to_batch_shell) == (180, "", True)
    assert b'TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT-180}"' in result.script
    shown = "\n".join(map(str, result.changes))
    assert "--no-requeue: a requeued job would run together with its successor [tried: Slurm 22.05.8]" in shown
    assert "after the failure of a node the job is not requeued" in shown
    assert applied(limit_s=400).grace_s == 100, "a quarter of the limit"
    assert "link takeover" not in shown
    assert "mirage link takeover in the script" in "\n".join(map(str, applied(ready_by_job=True).changes))


def test_what_the_user_gave_counts() -> None:
    given = {"requeue": None, "open-mode": "truncate", "signal": "USR1@60"}
    result = applied(given=given, grace_s=600)
    assert (result.options, result.grace_s) == ({}, None)
    assert b'TORCH_ELASTIC_SHUTDOWN_TIMEOUT-600}"' in result.script, "the wrapper has the same time"
    assert b"mirage_query=$((600 + 60))" in result.script, "the next link waits for a save of that time"

    shown = "\n".join(map(str, result.changes))
    for own in ("you gave --requeue", "you gave --open-mode", "you gave USR1@60, which reaches steps only"):
        assert own in shown
    assert "you gave RB:USR1@60, which reaches the batch shell" in str(applied(given={"signal": "RB:USR1@60"}).changes)


TRAP = "trap 'kill -TERM $pid' USR1\npython t.py & pid=$!\nwait $pid"


def test_a_script_with_a_trap_of_its_own_only_waits_for_the_previous_job() -> None:
    result = applied(TRAP)
    assert (result.signal, result.to_batch_shell, result.has_wrapper) == ("USR1", True, False)
    assert result.script.endswith(f"done\n{TRAP}\n".encode())
    assert b"mirage_ran)) -lt 900 ]" in result.script
    assert b"mirage_ran)) -lt 2060 ]" in applied(TRAP, grace_s=2000).script, "a save may take the grace"
    assert "wait in the script: the previous job saves and ends first" in map(str, result.changes)
    assert applied(TRAP, grace_s=60).script == waiting_for_previous(result.script), "a script waits once"


def test_a_script_with_a_trap_is_left_as_it_is_where_two_trainings_cannot_meet_or_may() -> None:
    for more in ({"never_two": True}, {"ready_by_job": True}, {"preset": "vllm"}):
        assert b"mirage" not in applied(TRAP, **more).script
    assert applied("trap 'x' USR1\npython t.py", signal_given=True).signal == ""


def test_the_wrapper_leaves_the_directives_and_needs_a_shell() -> None:
    script = b"#!/bin/sh\n# words\n#SBATCH -t 5 -J name\n\n  # indented\n#SBATCH -N 2\necho\n#SBATCH -N 3\n"
    text = wrapped(script, "TERM", 60, 300, {}, server=False)
    assert directives(text) == directives(script) == {"time": "5", "job-name": "name", "nodes": "2"}
    assert text.endswith(b"echo\n#SBATCH -N 3\n")
    for line, known in {
        b"#!/bin/bash -l": True, b"#!/usr/bin/env bash": True, b"#! /bin/sh": True, b"#!/bin/zsh": True,
        b"#!/usr/bin/python3": False, b"#!/bin/tcsh": False, b"#!/usr/bin/env -S bash -l": True,
    }.items():  # fmt: skip
        assert is_shell_script(line + b"\n") is known


LAUNCHER = """
import signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: print("launcher signalled", flush=True))
sys.exit(max(p.wait() for p in [subprocess.Popen([sys.executable, "train.py"]) for _ in range(2)]))
"""
TRAINER = """
import os, signal, sys, time
time.sleep(1.2)  # imports: a signal that comes now must not be lost
def leave(*_):
    print("left", os.getppid(), "stop file" if os.path.exists(os.environ["MIRAGE_STOP_FILE"]) else "", flush=True)
    sys.exit(0)
signal.signal(signal.SIG@, leave)
trainer = os.getpid()
os.fork()  # a worker, with the same handler
while os.getpid() == trainer or os.getppid() == trainer:
    time.sleep(0.05)
"""


PLAIN = '#!/bin/bash\npython3 torchrun "$1"\necho "status $?"\nexit 0\n'


def in_a_job(folder: Path, preset: str, script: str = PLAIN, **variables: str) -> subprocess.Popen[str]:
    """The wrapped script as slurmd would start it, as a job of a number of its own."""
    text = wrapped(script.encode(), preset, 20, 300, {}, server=False)
    (folder / "job.sh").write_bytes(text)
    (folder / "job.sh").chmod(0o755)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SLURM_JOB_ID": str(10**7 + os.getpid()),
        "SLURM_SUBMIT_DIR": str(folder), "MIRAGE_TEST_PROCESS": os.environ["MIRAGE_TEST_PROCESS"], **variables,
    }  # fmt: skip
    return subprocess.Popen(
        [folder / "job.sh", "an argument"], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("to", ["TERM", "USR1"])
@pytest.mark.parametrize("late", [False, True])
def test_the_wrapper_signals_trainers_once_they_handle_it_and_no_launcher_or_forked_worker(
    to: str, late: bool, tmp_path: Path
) -> None:
    (tmp_path / "torchrun").write_text(LAUNCHER)
    (tmp_path / "train.py").write_text(TRAINER.replace("@", to))
    job = in_a_job(tmp_path, to)
    time.sleep(3 if late else 0.5)
    job.send_signal(signal.SIGUSR2)
    out, err = job.communicate(timeout=30)
    assert job.returncode == LEFT_ON_WARNING
    assert out.count("left") == out.count("stop file") == 2, err
    assert "status 0" in out
    assert "launcher signalled" not in out
    assert err.count(f"{to} to process") == 2
    assert "USR2 has reached the batch shell" in err
    assert list(tmp_path.glob(".mirage*")) == []


@pytest.mark.parametrize(("server", "ready_by_job"), [(False, False), (True, False), (False, True)])
def test_a_trainer_starts_once_the_previous_link_has_left(server: bool, ready_by_job: bool, tmp_path: Path) -> None:
    """A server starts at once, and so does a training that waits itself."""
    number, at_once = str(10**7 + os.getpid()), server or ready_by_job
    script = b"#!/bin/bash\n[ -e .mirage-running-5 ]; echo $?\n"
    text = wrapped(script, "TERM", 20, 300, {}, server=server, ready_by_job=ready_by_job)
    (tmp_path / "job.sh").write_bytes(text)
    (tmp_path / "job.sh").chmod(0o755)
    (tmp_path / ".mirage-running-5").touch()
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": number, "SLURM_SUBMIT_DIR": str(tmp_path),
                   "MIRAGE_PREVIOUS_JOB": "5"}  # fmt: skip
    job = subprocess.Popen([tmp_path / "job.sh"], cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE)
    until(lambda: (tmp_path / f".mirage-running-{number}").exists() or job.poll() is not None, 5, "the job runs")
    if at_once:
        job.wait(20)
    else:
        time.sleep(0.3)
    (tmp_path / ".mirage-running-5").unlink()
    assert job.communicate(timeout=20)[0] == ("0\n" if at_once else "1\n")


@pytest.mark.parametrize("shebang", ["#!/bin/bash -eu", "#!/bin/sh -u"])
def test_the_wrapper_works_where_unset_variables_are_errors(shebang: str, tmp_path: Path) -> None:
    job = in_a_job(tmp_path, "TERM", f'{shebang}\necho "$1"\nexit 3\n')
    assert (*job.communicate(timeout=20), job.returncode) == ("an argument\n", "", 3)


def test_a_job_that_is_warned_while_it_waits_starts_no_training(tmp_path: Path) -> None:
    (tmp_path / ".mirage-running-5").touch()
    job = in_a_job(tmp_path, "TERM", "#!/bin/bash\necho trains\n", MIRAGE_PREVIOUS_JOB="5")
    until(lambda: len(list(tmp_path.glob(".mirage-running-*"))) == 2, 5, "the job waits")
    time.sleep(0.1)
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=20)
    assert (out, job.returncode) == ("", LEFT_ON_WARNING)


def test_the_status_of_a_script_that_ends_in_the_warning_is_its_own(tmp_path: Path) -> None:
    """Without a reader, the pipe in place of the stop file holds up the trap."""
    pipe = tmp_path / "pipe"
    job = in_a_job(tmp_path, "TERM", "#!/bin/bash\n: > began\nsleep 0.2\nexit 7\n", MIRAGE_STOP_FILE=str(pipe))
    until((tmp_path / "began").exists, 5, "the script runs")
    os.mkfifo(pipe)
    job.send_signal(signal.SIGUSR1)
    time.sleep(0.4)
    with pipe.open():
        job.communicate(timeout=20)
    assert job.returncode == 7


def test_a_job_that_a_wrapped_job_has_submitted_has_a_stop_file_of_its_own(tmp_path: Path) -> None:
    job = in_a_job(tmp_path, "TERM", '#!/bin/bash\necho "$MIRAGE_STOP_FILE"\n', MIRAGE_STOP_FILE="/x/.mirage-stop-77")
    assert job.communicate(timeout=20)[0] == f"{tmp_path}/.mirage-stop-{10**7 + os.getpid()}\n"
    job = in_a_job(tmp_path, "TERM", '#!/bin/bash\necho "$MIRAGE_STOP_FILE"\n', MIRAGE_STOP_FILE=f"{tmp_path}/save")
    assert job.communicate(timeout=20)[0] == f"{tmp_path}/save\n", "the user's own"


def test_a_trainer_is_signalled_whatever_its_arguments_and_environment(tmp_path: Path) -> None:
    """A container may clear the environment, and an argument may be the name of a launcher."""
    (tmp_path / "train.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('left', sys.argv[1], flush=True)))\n"
        "open(sys.argv[1], 'w').close()\ntime.sleep(20)\n"
    )
    lines = {
        "1": "python3 train.py 1 --launcher torchrun --x",
        "2": "python3 -W ignore -u train.py 2 runs/deepspeed x",
        "3": 'env -i "$(command -v python3)" train.py 3',
    }
    job = in_a_job(tmp_path, "TERM", "#!/bin/bash\n" + "".join(f"{line} &\n" for line in lines.values()) + "wait\n")
    until(lambda: all((tmp_path / name).exists() for name in lines), 10, "all handle the signal")
    job.send_signal(signal.SIGUSR2)
    out, err = job.communicate(timeout=30)
    assert sorted(out.split()) == ["1", "2", "3", "left", "left", "left"], err


def test_a_job_that_this_one_has_submitted_gets_no_signal_of_its_wrapper(tmp_path: Path) -> None:
    """It inherits the variables of the wrapper, and runs on the node."""
    (tmp_path / "train.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('left', sys.argv[1], flush=True)))\n"
        "open(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(20)\n"
    )
    script = "#!/bin/bash\n(SLURM_JOB_ID=77 setsid python3 train.py other &)\npython3 train.py own\n"
    job = in_a_job(tmp_path, "TERM", script)
    until(lambda: all((tmp_path / name).exists() for name in ("own", "other")), 10, "both handle the signal")
    job.send_signal(signal.SIGUSR2)
    time.sleep(2)
    other = int((tmp_path / "other").read_text())
    assert Path(f"/proc/{other}").exists()
    os.kill(other, signal.SIGKILL)
    out, err = job.communicate(timeout=30)
    assert out == "left own\n", err


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("NONE", {"MIRAGE_WRAPPED", "MIRAGE_STOP_FILE"}),
        ("A,B", {"A", "B", "MIRAGE_WRAPPED"}),
        ("ALL,C=1", {"ALL", "C=1"}),
    ],
)
def test_srun_passes_on_the_mark_of_a_job_that_exports_little(given: str, passed_on: set[str], tmp_path: Path) -> None:
    job = in_a_job(tmp_path, "TERM", '#!/bin/bash\necho "$SLURM_EXPORT_ENV"\n', SLURM_EXPORT_ENV=given)
    names = set(job.communicate(timeout=20)[0].strip().split(","))
    assert passed_on <= names
    assert (names == passed_on) is given.startswith("ALL")
    assert "NONE" not in names
