"""Recipes of presets live through chains of three links on a real Slurm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from mirage.presets.wrapper import waiting_for_previous, wrapped
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

TRAIN = """
import json, os, sys, time
from pathlib import Path
from mirage.hooks import any_rank, progress, saved, should_stop, remaining_s
TORCH
state = Path("state.json")
step = json.loads(state.read_text())["step"] if state.exists() else 0
assert 0 < remaining_s() <= 121, "the end of the job is known"
first = os.environ.get("RANK", "0") == "0"
def save():
    part = Path("state.part")
    part.write_text(json.dumps({"step": step}))
    time.sleep(1)
    part.replace(state)
    saved(step)
if first:
    print("begins", os.environ["MIRAGE_LINK"], step, flush=True)
while step < 10_000:
    time.sleep(0.1)
    step += 1
    if first:
        with open("loss.log", "a") as log:
            log.write(f"{step} {1 / step:.4f}\\n")
    progress(step)
    if any_rank(should_stop()):
        if first:
            save()
            print("saved", step, flush=True)
        sys.exit(0)
"""

PLAIN_TORCH = """
import torch
torch.distributed.init_process_group("gloo")
"""

VLLM = """#!PYTHON
import http.server, signal, sys, threading, time

stopping, running = threading.Event(), []
grace = float(sys.argv[sys.argv.index("--shutdown-timeout") + 1]) if "--shutdown-timeout" in sys.argv else 0
port = int(sys.argv[sys.argv.index("--port") + 1])
time.sleep(2)

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if stopping.is_set():
            self.send_response(503); self.end_headers(); return
        running.append(self)
        if self.path != "/health":
            time.sleep(1)
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
        running.remove(self)
    def log_message(self, *_): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
server.daemon_threads = True
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
threading.Thread(target=server.serve_forever, daemon=True).start()
print("serves", port, flush=True)
stopping.wait()
end = time.monotonic() + grace
while running and time.monotonic() < end:
    time.sleep(0.05)
print("aborts", len(running), flush=True)
"""

RECIPES = {
    "bare": ("python3 train.py", ""),
    "srun": ("srun python3 train.py", ""),
    "torchrun": ("torchrun --standalone --nproc-per-node 2 train.py", PLAIN_TORCH),
}


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    return private_cluster(nodes=4, min_job_age_s=36_000)


def shell_of(cluster: Any, folder: Path) -> Shell:
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Shell(cluster, folder, PATH=path)


def steps(shell: Shell) -> list[int]:
    path = shell.folder / "loss.log"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.soak
def test_trainings_resume_where_they_left(cluster: Any, tmp_path: Path) -> None:
    """One of them has two ranks, which leave at the same step."""
    shells = {name: shell_of(cluster, tmp_path / name) for name in RECIPES}
    agents = []
    for name, (line, torch) in RECIPES.items():
        shell = shells[name]
        shell.script("train.py", TRAIN.replace("TORCH", torch))
        shell.script("train.sh", f"#!/bin/bash\n#SBATCH -o train.log\n{line}\n")
        shell.submit(
            name,
            "-t",
            "2",
            "--framework",
            "python",
            "--policy",
            "lead:0.025",
            "--grace",
            "25s",
            "--links",
            "3",
            "train.sh",
        )
        agents.append(shell.agent())
    for name, shell in shells.items():
        shell.until(lambda shell=shell: output(shell).count("saved") >= 3, 500, f"three links of {name} have left")  # type: ignore[misc]
    for agent in agents:
        terminate(agent)
    for name, shell in shells.items():
        text = output(shell)
        begins = [int(step) for step in re.findall(r"begins \d (\d+)", text)]
        saves = [int(step) for step in re.findall(r"saved (\d+)", text)]
        assert begins[:3] == [0, *saves[:2]], (name, text)
        assert steps(shell) == list(range(1, saves[-1] + 1)), name
        assert "USR2 to process" in text
        assert "SIGKILL" not in text


def output(shell: Shell) -> str:
    path = shell.folder / "train.log"
    return path.read_text() if path.exists() else ""


def answered(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/generate", timeout=20) as answer:
            return bool(answer.read() == b"ok")
    except (OSError, urllib.error.URLError):
        return False


@pytest.mark.soak
def test_a_server_with_the_flags_of_vllm_answers_every_request(cluster: Any, tmp_path: Path) -> None:
    shell = shell_of(cluster, tmp_path / "serve")
    shell.script("vllm", VLLM.replace("PYTHON", sys.executable))
    (shell.folder / "vllm").chmod(0o755)
    shell.script(
        "train.sh",
        "#!/bin/bash\n#SBATCH -o train.log\n"
        "exec vllm serve model --port $((20000 + SLURM_JOB_ID % 12000)) --shutdown-timeout 10\n",
    )
    ready = f"{sys.executable} -c \"import os, urllib.request as u; u.urlopen('http://127.0.0.1:%d/health' % " \
            "(20000 + int(os.environ['MIRAGE_JOB']) % 12000))\""  # fmt: skip
    shell.submit("serve", "-t", "4", "--framework", "auto", "--policy", "lead:0.058", "--grace", "20s", "--links", "3",
                 "--ready-command", ready, "train.sh")  # fmt: skip
    agent = shell.agent()
    shell.until(lambda: "serves" in output(shell), 60, "the first link serves")
    lost = total = 0
    while output(shell).count("serves") < 3 or output(shell).count("aborts") < 2:
        ports = [int(port) for port in re.findall(r"serves (\d+)", output(shell))]
        total += 1
        lost += not any(answered(port) for port in reversed(ports))  # as a proxy tries the next server after a 503
    terminate(agent)
    shell.mirage("chain", "stop", "serve")
    assert lost == 0
    assert total >= 8, "requests of a second each, through two hand-overs"
    assert re.findall(r"aborts (\d+)", output(shell))[:2] == ["0", "0"]
    assert "TERM to process" in output(shell)


PHASES = """
import os, sys, time
if sys.argv[1] == "imports":
    print("now", flush=True)
    time.sleep(3)  # no handler yet: the wrapper repeats the signal
from mirage.hooks import progress, saved, should_stop

def busy(phase, seconds):
    if sys.argv[1] == phase and not should_stop():
        print("now", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100_000)) if phase == "first compile" else time.sleep(0.05)

busy("first compile", 3)
busy("warm-up", 3)
step = checkpoint = 0
while True:
    time.sleep(0.05)
    step += 1
    progress(step)
    if step % 20 == 10:
        busy("evaluation", 3)
    if step % 20 == 0 or should_stop():
        busy("save", 2)
        checkpoint = step
        saved(step)
    if should_stop() and checkpoint:
        print("left", step - checkpoint, flush=True)
        sys.exit(0)
"""


def test_a_warning_in_any_phase_loses_less_than_a_checkpoint_interval(cluster: Any, tmp_path: Path) -> None:
    """Twenty steps are between two checkpoints."""
    phases = ("imports", "first compile", "warm-up", "evaluation", "save")
    shell = shell_of(cluster, tmp_path / "phases")
    shell.script("train.py", PHASES)
    jobs = {}
    for phase in phases:
        shell.script(f"{phase}.sh", f"#!/bin/bash\n#SBATCH -o '{phase}.log'\npython3 train.py '{phase}'\n")
        jobs[phase] = shell.submit(phase.replace(" ", "-"), "-t", "5", "--framework", "python", f"{phase}.sh")
    for phase in phases:
        path = shell.folder / f"{phase}.log"
        shell.until(lambda path=path: path.exists() and "now" in path.read_text(), 60, f"{phase} begins")  # type: ignore[misc]
        shell.slurm.signal(jobs[phase], "USR2", to_batch_shell=True)
    for phase in phases:
        path = shell.folder / f"{phase}.log"
        shell.until(lambda path=path: "left" in path.read_text(), 60, f"the job leaves after a warning in {phase}")  # type: ignore[misc]
        lost = int(re.findall(r"left (\d+)", path.read_text())[0])
        assert lost == 0, phase
    shell.until(
        lambda: {job.state for job in shell.slurm.observe_jobs(list(jobs.values()))} == {JobState.FAILED}, 30, "75"
    )


def sbatch(shell: Shell, *words: str) -> str:
    line = ["sbatch", "--parsable", "-t", "5", *words]
    return subprocess.check_output(line, cwd=shell.folder, env=shell.environment, text=True).strip()


ON_TWO_NODES = """#!/bin/bash
#SBATCH -o train.log -N 2 --ntasks-per-node=1
srun python3 -c '
import os, signal, sys, time
def leave(*_):
    print("left", os.environ["SLURMD_NODENAME"], flush=True)
    sys.exit()
signal.signal(signal.SIGUSR2, leave)
print("begins", flush=True)
while True:
    time.sleep(0.1)'
"""


def test_the_trainers_of_every_node_get_the_signal_and_srun_reports_no_error(cluster: Any, tmp_path: Path) -> None:
    shell = shell_of(cluster, tmp_path / "nodes")
    shell.script("train.sh", wrapped(ON_TWO_NODES.encode(), "USR2", 60, 300, {}, server=False).decode())
    job = int(sbatch(shell, "train.sh"))
    shell.until(lambda: output(shell).count("begins") == 2, 60, "both tasks train")
    shell.slurm.signal(job, "USR2", to_batch_shell=True)
    shell.until(lambda: shell.slurm.observe_jobs([job])[0].state == JobState.FAILED, 60, "75")
    text = output(shell)
    signalled, left = re.findall(r"USR2 to process \d+ on (\w+)", text), re.findall(r"left (\w+)", text)
    assert len(set(left)) == len(left) == 2
    assert sorted(signalled) == sorted(left)
    assert "srun" not in text


ONE_AT_A_TIME = """#!/bin/bash
#SBATCH -o train.log
exec python3 -c '
import os, signal, sys, time
job = os.environ["SLURM_JOB_ID"]
def leave(*_):
    time.sleep(2)  # a save
    print("left", job, flush=True)
    sys.exit()
signal.signal(signal.SIGUSR2, leave)
print("begins", job, flush=True)
while not os.path.exists("end"):
    time.sleep(0.1)
leave()'
"""


@pytest.mark.parametrize("has_wrapper", [True, False])
def test_without_an_agent_a_training_starts_only_once_the_previous_one_has_left(
    has_wrapper: bool, cluster: Any, tmp_path: Path
) -> None:
    """A wrapper signals that of the previous job; a trap of the user gets nothing."""
    shell = shell_of(cluster, tmp_path / "two")
    script = ONE_AT_A_TIME.encode()
    text = wrapped(script, "USR2", 1, 300, {}, server=False) if has_wrapper else waiting_for_previous(script)
    shell.script("train.sh", text.decode().replace("mirage_query=$((1 + 60))", "mirage_query=3"))

    def submit(previous: str) -> str:
        job = sbatch(shell, f"--export=ALL,MIRAGE_PREVIOUS_JOB={previous}", "--open-mode=append", "train.sh")
        shell.until(lambda: shell.slurm.observe_jobs([int(job)])[0].state == JobState.RUNNING, 60, "the job runs")
        return job

    first = submit("")
    shell.until(lambda: f"begins {first}" in output(shell), 60, "the first job trains")
    second = submit(first)
    if not has_wrapper:
        time.sleep(5)
        shell.script("end", "")
    shell.until(lambda: f"begins {second}" in output(shell), 60, "the second job trains")
    shell.script("end", "")
    assert re.findall(r"^(?:begins|left) \d+", output(shell), re.M)[:3] == [
        f"begins {first}", f"left {first}", f"begins {second}",
    ]  # fmt: skip
    assert (f"job {first} still runs: it gets USR1" in output(shell)) is has_wrapper
