"""Measures the time to make a view of the simulator, compared with a fork and a full copy.

    python benchmarks/forecast/view_cost.py            # a few seconds
    python benchmarks/forecast/view_cost.py --quick    # a smoke run

A queue of 1,000 jobs that wait or run on 350 nodes, and 5,000 and more that have ended. Processor time is measured, the
best of several runs counts. Results go to ``benchmarks/results/view_cost.json`` as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mirage.policy.view import MOST_ENDED
from mirage.sim.cluster import Cluster
from mirage.sim.kernel.arrays import BY_PREEMPTION, BY_RESIZE, RUNNING, SUSPENDING, WHOLE_NODE
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

HERE = Path(__file__).resolve().parent
NODES, ALIVE, ENDED = 350, 1_000, 6_000
HOUR_S = 3_600


def busy_simulation(discipline: str = "easy") -> Simulation:
    """A simulation in which ``ENDED`` jobs have ended, and ``ALIVE`` wait or run."""
    rng = np.random.default_rng(1)
    n = ENDED + ALIVE
    table = JobTable.build(
        range(n),
        submit_s=np.concatenate([np.sort(rng.integers(0, HOUR_S, ENDED)), np.full(ALIVE, 200 * HOUR_S)]),
        elapsed_s=rng.integers(60, 2 * HOUR_S, n) + np.where(np.arange(n) < ENDED, 0, 100 * HOUR_S),
        limit_s=np.full(n, 300 * HOUR_S),
        nodes=np.ones(n, dtype=np.int64),
        user=[f"u{k}" for k in rng.integers(0, 100, n)],
        name=[f"job{k % 37}_{k}" for k in range(n)],
        account=[f"a{k % 9}" for k in range(n)],
    )
    cluster = Cluster.pool(NODES)
    sim = Simulation(cluster, workload(table, cluster), discipline)
    sim.advance(201 * HOUR_S)
    return sim


def copied_view(sim: Simulation) -> list[Any]:
    """The reference: a gather and a copy of every column, as up to version 0.1."""
    state, clock = sim.state, sim.state.clock[0]
    made = []
    for slots in (
        state.queue[clock.queue_head : clock.queue_head + clock.n_pending],
        state.running[: clock.n_running],
        state.held[: clock.n_held],
    ):
        live = state.live[slots]
        runs = (live.status == RUNNING) | (live.status == SUSPENDING)
        worked = np.maximum(int(clock.now_s) - live.start_s - live.resume_s, 0) * live.speed * (live.status == RUNNING)
        whole = (live.gpus == WHOLE_NODE) | bool(sim.world.settings[0].stacked)
        made += [live[name].copy() for name in ("id", "user", "partition", "qos", "nodes", "limit_s", "submit_s")]
        made += [np.where(whole, WHOLE_NODE, live.gpus), np.where(whole, WHOLE_NODE, live.cpus), live.eligible_s.copy()]
        made += [np.where(runs, live.start_s, -1), np.where(runs, live.width, 0), live.done_s + worked]
        made.append(np.where(live.priority > 1.0, live.priority, 0.0))
    segments = sim.segments()[-MOST_ENDED:]
    ends = segments[(segments.why != BY_PREEMPTION) & (segments.why != BY_RESIZE)]
    made += [np.ascontiguousarray(ends[name]) for name in ("user", "width", "limit_s", "submit_s", "start_s", "end_s")]
    return made


def best_us(repetitions: int, calls: int, action: Callable[[], Any]) -> float:
    """Processor microseconds of a call, in the fastest of several rounds of calls."""
    best_s = float("inf")
    for _ in range(repetitions):
        begun_s = time.process_time()
        for _ in range(calls):
            action()
        best_s = min(best_s, (time.process_time() - begun_s) / calls)
    return best_s * 1e6


def moving_us(sim: Simulation, repetitions: int, part: bool) -> float:
    """Microseconds of a view after more jobs ended: in the same branch, or in a new one."""
    best_s, branch = float("inf"), sim.fork()
    for _ in range(repetitions):
        branch = sim.fork() if part else branch
        ended = len(branch.segments())
        while len(branch.segments()) == ended:
            branch.step()
        begun_s = time.process_time()
        branch.view()
        best_s = min(best_s, time.process_time() - begun_s)
    return best_s * 1e6


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="everything once")
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "results" / "view_cost.json")
    quick = (arguments := parser.parse_args()).quick
    repetitions, calls = (1, 2) if quick else (15, 200)
    sim = busy_simulation()
    view = sim.view()
    branch = sim.fork()
    results: dict[str, Any] = {
        "command": " ".join(["python", "benchmarks/forecast/view_cost.py", *sys.argv[1:]]),
        "pending": len(view.pending),
        "running": len(view.running),
        "ended": len(view.ended),
        "fork_and_restore_us": best_us(repetitions, calls, lambda: branch.restore(sim.fork())),
        "fork_us": best_us(repetitions, calls, sim.fork),
        "copied_view_us": best_us(repetitions, calls, lambda: copied_view(sim)),
        "view_us": best_us(repetitions, calls, sim.view),
        "view_after_ends_us": moving_us(sim, 8 * repetitions, part=False),
        "view_after_parting_us": moving_us(sim, 8 * repetitions, part=True),
    }
    results["view_of_fork"] = results["view_us"] / results["fork_us"]
    results["view_of_copied"] = results["view_us"] / results["copied_view_us"]
    for name, value in results.items():
        print(f"{name:<28} {value if isinstance(value, str | int) else round(value, 3)}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
