"""Training scripts with one trap each, and six without any.

All train with one program, ``TRAIN``, whose options plant the trap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TRAIN = """
import argparse, json, os, re, signal, sys, time
from pathlib import Path

options = argparse.ArgumentParser()
options.add_argument("--stop-on", default="USR1")
options.add_argument("--save", type=float, default=0.3)
options.add_argument("--in-place", action="store_true")
options.add_argument("--evaluate-at", type=int, default=0)
options.add_argument("--load", default="newest", choices=["newest", "none", "by-name"])
options.add_argument("--state", default="state")
options.add_argument("--every", type=int, default=30)  # none at the warning, 4 to 5 s after the first step
options = options.parse_args()

stop = False
def handle(*_):
    global stop
    stop = True
signal.signal(getattr(signal, "SIG" + options.stop_on), handle)
folder = Path(options.state)
folder.mkdir(exist_ok=True)

def number(path):
    return int(re.search(r"\\d+", path.name)[0])

def load():
    found = list(folder.glob("step-*.json"))
    if options.in_place:
        found = [path for path in [folder / "last.json"] if path.exists()]
    if not found or options.load == "none":
        return 0
    path = found[0] if options.in_place else max(found, key=str if options.load == "by-name" else number)
    return json.loads(path.read_text())["step"]

def save(seconds):
    path = folder / ("last.json" if options.in_place else f"step-{step}.json")
    part = path if options.in_place else folder / "part"
    text = json.dumps({"weights": "0" * 4000, "step": step})
    with open(part, "w") as file:
        for k in range(10):
            file.write(text[k * len(text) // 10 : (k + 1) * len(text) // 10])
            file.flush()
            time.sleep(seconds / 10)
    part.replace(path)

step = load()
last = time.monotonic() + 150
while time.monotonic() < last:  # a worker of a killed launcher may outlive its job
    time.sleep(0.1)
    step += 1
    print("step", step, flush=True)
    if step == options.evaluate_at:
        print("evaluation", flush=True)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.1)
    if stop:
        save(options.save)
        sys.exit(0)
    if step % options.every == 0:
        save(0.1)
"""

HOOKED = """
import json, sys, time
from pathlib import Path
from mirage.hooks import progress, saved, should_stop

state = Path("state.json")
step = json.loads(state.read_text())["step"] if state.exists() else 0
while True:
    time.sleep(0.1)
    step += 1
    progress(step)
    if should_stop():
        Path("part").write_text(json.dumps({"step": step}))
        time.sleep(1)
        Path("part").replace(state)
        saved(step)
        sys.exit(0)
"""

DEEPSPEED = """
import os, signal, subprocess, sys
workers = [subprocess.Popen([sys.executable, *sys.argv[1:]]) for _ in range(2)]
def end(*_):
    for worker in workers:
        worker.kill()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
for worker in workers:
    worker.wait()
"""

PASSES_ON = """trap 'kill -{to} $pid' {on}
{line} & pid=$!
wait $pid
wait $pid
"""


def passes_on(line: str, on: str = "USR1", to: str = "USR1") -> str:
    """A script with a trap of its own that passes the signal on, as it should."""
    return PASSES_ON.format(line=line, on=on, to=to)


@dataclass(frozen=True)
class Planted:
    """A script: its lines after ``#SBATCH``, and how it is rehearsed."""

    text: str
    signal: str = "B:USR1@8"
    output: str = "-o %x-%j.log"
    words: tuple[str, ...] = ()
    further: dict[str, Any] = field(default_factory=dict)

    @property
    def script(self) -> str:
        directive = f" --signal={self.signal}" if self.signal else ""
        return f"#!/bin/bash\n#SBATCH {self.output}{directive}\n{self.text}"


TORCHRUN = "torchrun --standalone --nproc-per-node 1 train.py"

TRAPS = {
    "signal-reaches-no-process": Planted("python3 train.py\n", "USR1@8"),
    "trap-in-foreground": Planted("trap 'pkill -USR1 -P $$' USR1\npython3 train.py\n"),
    "launcher-killed-by-signal": Planted(passes_on(TORCHRUN)),
    "workers-killed-after-30-s": Planted(
        passes_on(f"{TORCHRUN} --stop-on TERM --save 60 --every 1000", to="TERM"), "B:USR1@50"
    ),
    "launcher-ends-children": Planted(passes_on("python3 deepspeed train.py --stop-on TERM", to="TERM")),
    "signal-read-too-late": Planted(passes_on("python3 train.py --evaluate-at 22")),
    "save-longer-than-grace": Planted(passes_on("python3 train.py --save 40")),
    "torn-checkpoint": Planted(passes_on("python3 train.py --save 40 --in-place")),
    "not-resumed": Planted(passes_on("python3 train.py --load none")),
    "resumed-from-older-checkpoint": Planted(
        passes_on("python3 train.py --load by-name --every 4"), words=("--after", "18s")
    ),
    "log-truncated": Planted(passes_on("python3 train.py"), output="-o train.log"),
    "state-keyed-by-job": Planted(passes_on("python3 train.py --state state-$SLURM_JOB_ID")),
    "two-chains-in-one-directory": Planted(passes_on("python3 train.py"), further={"shared": True}),
}
"""Name of the trap → a script that has it."""

RIGHT = {
    "bare": Planted(passes_on("python3 train.py")),
    "srun": Planted("srun python3 train.py\n", "USR1@8"),
    "long save": Planted(passes_on("python3 train.py --save 4"), "B:USR1@12"),
    "one log": Planted(passes_on("python3 train.py"), output="-o train.log --open-mode=append"),
    "hooks": Planted("python3 hooked.py\n", "", words=("--framework", "python", "--grace", "10s")),
    "hooks alone": Planted("exec python3 hooked.py\n"),
    "torchrun": Planted(f"{TORCHRUN} --stop-on USR2\n", "", words=("--framework", "python", "--grace", "10s")),
}
"""Scripts without a trap."""
