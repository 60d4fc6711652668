"""Predictions of starts on a real slurmctld under load, ours and Slurm's, with outcomes.

    python benchmarks/agent/predictions_real.py --predictions 100 --speed 60 -o predictions-real.json

Starts a private cluster on loopback with accounting and a compressed clock, and keeps its queue busy with random jobs.
Again and again a small job is predicted as ``mirage predict job.sh`` does, then submitted; the promises and their
outcomes are those of ``mirage predict --calibration``. Ranges are corrected by the outcomes that are known by then; the
number of corrected predictions is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mirage.cli import cli_context as cluster
from mirage.cli.commands.predict.cluster_now import observe_cluster
from mirage.cli.commands.predict.reported_prediction import learnt, promise, report_request
from mirage.cli.commands.predict.requested_job import read_request, slurms_estimate
from mirage.duration import DAY_S, HOUR_S
from mirage.job_state import MISSING
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.predict.start.promise import OPEN
from mirage.predict.start.promise_calibration import PromiseCalibration, calibration
from mirage.predict.start.promise_file import Promises
from mirage.slurm.text.requested_size import requested_size

EVERY_S = 180
WARM_S = 3 * HOUR_S
DRAIN_S = 4 * HOUR_S
LIMITS_MIN = (17, 31, 61, 121, 241)
WORDS = "import predictions_real; predictions_real.{call}"
LOADER = "import real_chain; real_chain.load_queue({seed}, {nodes}, {until})"


def predict_repeatedly(count: int, seed: int, nodes: int, warm_s: int, drain_s: int, output: str) -> None:
    """Predict and submit, then wait for the outcomes; runs on the cluster's clock."""
    dice, promises = random.Random(seed), Promises(cluster.home().promises)
    time.sleep(warm_s)
    corrected = 0
    for number in range(count):
        limit = str(dice.choice(LIMITS_MIN))
        words = ["-N", str(dice.choice((1, 1, 2, nodes))), "-t", limit, "-J", f"probe{number}", "--exclusive"]
        request, client = read_request(words, comparing=False), cluster.client()
        now = observe_cluster(client, 3 * DAY_S, seed=0)
        size = requested_size(request.given, now.machine, now.shared)
        estimate = slurms_estimate(client, request)
        correction = learnt(promises, now)
        prediction = report_request(now, request, size, estimate.start_s if estimate else MISSING, correction)
        promise(promises, now, [prediction])
        corrected += bool(prediction.corrected)
        submitted = ["sbatch", *words, "-o", "/dev/null", "--wrap", "sleep 60"]
        subprocess.run(submitted, check=True, capture_output=True)
        print(f"{number + 1} of {count} predicted, {correction.outcomes()} outcomes", file=sys.stderr)
        time.sleep(EVERY_S)
    end_s = time.time() + drain_s
    while time.time() < end_s and promises.of(now.name, OPEN):
        time.sleep(10 * 60)
        learnt(promises, observe_cluster(cluster.client(), 3 * DAY_S, seed=0))
    found = [group.to_json() for group in calibration(promises.settled(now.name))]
    result = {"corrected": corrected, "open": len(promises.of(now.name, OPEN)), "groups": found}
    Path(output).write_text(json.dumps({**result, "kept": [asdict(one) for one in promises.settled(now.name)]}))


def report(groups: Sequence[PromiseCalibration]) -> None:
    """Print the shares inside, and the errors."""
    for one in groups:
        inside = " ".join(f"{share:.0%}" for share in one.inside)
        slurms = "-" if one.slurm_error_s is None else f"{one.slurm_error_s / 60:.1f} min"
        ours = "-" if one.same_error_s is None else f"{one.same_error_s / 60:.1f} min"
        print(
            f"{one.group}: {one.settled} kept, inside 50/80/95 %: {inside}; median error {one.error_s / 60:.1f} min; "
            f"on the {one.slurm_settled} where Slurm spoke {ours}, Slurm's {slurms}"
        )


def main() -> None:
    """Run the cluster, the load and the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--speed", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warm-s", type=int, default=WARM_S)
    parser.add_argument("--drain-s", type=int, default=DRAIN_S)
    parser.add_argument("-o", "--output", type=Path, default=Path("predictions-real.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-", dir="/tmp") as folder:
        spec = LabSpec(
            directory=Path(folder) / "lab", nodes=options.nodes, gpus=0, accounting=True, speed=options.speed,
            min_job_age_s=2 * DAY_S,
        )  # fmt: skip
        site = PrivateCluster(spec)
        try:
            site.up()
            environment = {**os.environ, **site.user_environment, "PYTHONPATH": str(Path(__file__).resolve().parent)}
            busy = LOADER.format(seed=options.seed, nodes=options.nodes, until=2**40)
            load = subprocess.Popen([sys.executable, "-c", busy], env=environment)
            arguments = (options.predictions, options.seed, options.nodes, options.warm_s, options.drain_s)
            call = f"predict_repeatedly{(*arguments, str(options.output.absolute()))!r}"
            try:
                words = [sys.executable, "-c", WORDS.format(call=call)]
                subprocess.run(words, env=environment, check=True)
                if load.poll() is not None:
                    raise SystemExit("the load has ended early: what was predicted is an idle cluster")
            finally:
                load.terminate()
                load.wait()
        finally:
            site.purge()
    result = json.loads(options.output.read_text())
    print(f"{result['corrected']} predicted with corrected ranges, {result['open']} still open")
    report([PromiseCalibration(**group) for group in result["groups"]])


if __name__ == "__main__":
    main()
