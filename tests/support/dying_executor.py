"""An executor that evicts a job, and dies with SIGKILL after one of its commands."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage.control.allow_list import PLAN_FORMAT
from mirage.control.plan_executor import PlanExecutor
from mirage.control.pools_file import read_pools
from mirage.slurm.client import SlurmClient


def main(config: str, folder: str, job: str, submit_s: str, verb: str) -> None:
    """Evict a job without a signal.

    Args:
        config: The file of pools.
        folder: The folder of the journal.
        job: Its id.
        submit_s: Its submission.
        verb: The command after which the process dies.
    """

    def die(outcome: Mapping[str, Any]) -> None:
        print(outcome, flush=True)
        if (outcome["what"], outcome["outcome"]) == (verb, "done"):
            os.kill(os.getpid(), signal.SIGKILL)

    executor = PlanExecutor(SlurmClient(), read_pools(Path(config)), Path(folder), time.time)
    executor.begin()
    executor.on_outcome = die
    row = {"name": "evict", "job": int(job), "submit_s": int(submit_s), "warns": False}
    executor.run_plan({"format": PLAN_FORMAT, "number": 1, "time_s": int(time.time()), "verbs": [row]})
    while True:
        executor.tick()
        time.sleep(0.1)
