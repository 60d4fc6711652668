"""The overhead of a preemption of emulated jobs, by model.

Each model of the profiles trains twice on four GPUs: without an interruption, and preempted once after about half of
its work, by USR1. The preempted job is then started again from its checkpoint. The overhead is the time of its two
attempts, minus that of the job without an interruption. It has the loading of the second attempt, and the part of a
step that the signal interrupts. Reference: the restart cost that Sia's authors measured (SOSP'23).

    python benchmarks/emulate/preemption_overheads.py --profiles PROFILES -o overheads.json
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from mirage.schedule.speeds.profile_files import PUBLISHED

WORK_S = 400.0


def attempt(argv: list[str], warn_after_s: float | None = None) -> dict[str, Any]:
    """The JSON of a training, warned after some real seconds."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if warn_after_s is not None:
        time.sleep(warn_after_s)
        process.send_signal(signal.SIGUSR1)
    found: dict[str, Any] = json.loads(process.communicate()[0])
    return found


def overhead(folder: Path, profiles: Path, speed: float, model: str) -> dict[str, Any]:
    """The figures of a model."""
    command = [sys.executable, "-m", "mirage", "emulate", "train", "--profiles", str(profiles), "--model", model]
    command += ["--gpu-type", "a100", "--gpus", "4", "--speed", str(speed), "--json"]
    one_step_s = attempt([*command, "--steps", "1", "--restart-s", "0"])["step_s"]
    command += ["--steps", str(int(WORK_S / one_step_s))]
    whole = attempt(command)
    resumed = [*command, "--resume", str(folder / model)]
    begun_s = 1.5  # in which Python starts
    first = attempt(resumed, begun_s + (PUBLISHED[model].restart_s + WORK_S / 2) / speed)
    second = attempt(resumed)
    assert (first["state"], second["state"]) == ("left", "done"), (first, second)
    assert second["first_step"] == first["saved_step"] > 0, "no complete step is lost"
    cost_s = first["elapsed_s"] + second["elapsed_s"] - whole["elapsed_s"]
    return {"step_s": one_step_s, "overhead_s": cost_s, "published_s": PUBLISHED[model].restart_s}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--profiles", type=Path, required=True, help="folder of measured step times")
    parser.add_argument("--speed", type=float, default=10.0, help="emulated seconds per second")
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-overheads-") as name, ThreadPoolExecutor(len(PUBLISHED)) as pool:
        of_model = partial(overhead, Path(name), given.profiles, given.speed)
        found = dict(zip(PUBLISHED, pool.map(of_model, PUBLISHED)))
    for model, row in found.items():
        ratio = row["overhead_s"] / row["published_s"]
        print(
            f"{model}: steps of {row['step_s']:.2f} s, overhead {row['overhead_s']:.1f} s, published "
            f"{row['published_s']:.0f} s ({ratio:.3f})"
        )
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
