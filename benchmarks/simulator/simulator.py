"""Speed of the simulator: disciplines, forks, first use, environment, with references.

    python benchmarks/simulator/simulator.py            # about three minutes
    python benchmarks/simulator/simulator.py --quick    # a smoke run: everything once, on less

Processor time is measured, not wall-clock time, and the best of several runs counts: this removes most effects of other
processes of the machine. Results go to ``benchmarks/results/simulator.json`` as well.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

import mirage
from mirage.calibration.inferred.capacity import outages, queued
from mirage.calibration.mechanisms import GROUP, Mechanisms, Site
from mirage.duration import DAY_S, HOUR_S
from mirage.sim.cluster import Cluster, Reservation
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import Workload, workload
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.pool_workload import pool_workload
from mirage.trace.workload.workload_json import builtin_model
from plain_easy import plain_easy

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("MIRAGE_DATA", HERE.parents[2] / "shared" / "data"))
LS6_TRACE = DATA / "mirage-ls6" / "ls6-a100.log.gz"
LS6_NODES = 76
JANUARY_S = 1_672_531_200
"""2023-01-01."""

PLAN_EVERYTHING = SlurmSettings(max_job_test=10**9)
"""Exact conservative backfill: every job in the queue has a reservation."""


class World(NamedTuple):
    """What a workload is replayed under."""

    discipline: str
    cluster: Cluster
    settings: SlurmSettings


class Case(NamedTuple):
    """A workload to replay on whole nodes, and under what, by name."""

    name: str
    jobs: Workload
    nodes: int
    worlds: dict[str, World]


def best_cpu_s(repetitions: int, action: Callable[[], Any], prepare: Callable[[], Any] | None = None) -> float:
    """CPU seconds of the fastest of several calls; ``prepare`` runs before each, unmeasured."""
    best_s = float("inf")
    for _ in range(repetitions):
        if prepare is not None:
            prepare()
        begun_s = time.process_time()
        action()
        best_s = min(best_s, time.process_time() - begun_s)
    return best_s


# -- disciplines ----------------------------------------------------------------------------------------------------


def generated(jobs: int) -> Case:
    """A pool of 352 processors at a load of 0.9, as the queue of a busy machine."""
    table = pool_workload(jobs, processors=352, load=0.9, seed=1)
    pool = Cluster.pool(352)
    worlds = {name: World(name, pool, PLAN_EVERYTHING) for name in ("fcfs", "easy", "conservative")}
    return Case(f"generated, {jobs:,} jobs", workload(table, pool), 352, worlds)


def lonestar6() -> Case | None:
    """The published trace of Lonestar6's A100 nodes, if it is next to the checkout."""
    if not LS6_TRACE.exists():
        return None
    table, pool, settings = read_trace(LS6_TRACE).table, Cluster.pool(LS6_NODES), SlurmSettings.lonestar6()
    jobs = workload(table, pool, refuse=False)
    worlds = {
        "easy": World("easy", pool, settings),
        "slurm": World("slurm", pool, settings),
        "slurm, fitted": fitted(queued(table), settings),
        "slurm with every mechanism": every_mechanism(queued(table), settings),
    }
    return Case(f"Lonestar6, {len(jobs.jobs):,} jobs", jobs, LS6_NODES, worlds)


def fitted(table: JobTable, settings: SlurmSettings) -> World:
    """The result of ``mirage calibrate`` for January 2023 (docs/explanation/calibration.md)."""
    site = Site.of(table, settings, JANUARY_S, JANUARY_S + 31 * DAY_S)
    mechanisms = Mechanisms(dip_s=48 * HOUR_S, recorded=True, age=3500.0, user_jobs=8)
    return World("slurm", site.cluster(mechanisms), site.scheduler(mechanisms))


def every_mechanism(table: JobTable, settings: SlurmSettings) -> World:
    """Changes of nodes, a limit per user, a turnover, fair-share, announced maintenance."""
    site = Site.of(table, settings, int(table.submit_s[0]), int(table.submit_s[-1]))
    mechanisms = Mechanisms(dip_s=48 * HOUR_S, user_jobs=8)
    capacity = site.capacity(mechanisms)
    down = []
    for outage in outages(table, capacity.times_s, capacity.nodes):
        first, last = np.searchsorted(capacity.times_s, (outage.start_s, outage.end_s), side="right")
        there = int(capacity.nodes[first - 1 : last].min())
        down.append(Reservation(outage.start_s, outage.end_s, GROUP, there, outage.start_s - 7 * DAY_S))
    cluster = site.cluster(mechanisms)
    return World("slurm", replace(cluster, reservations=tuple(down)), replace(settings, turnover_s=15))


def measure_case(case: Case, repetitions: int) -> list[dict[str, Any]]:
    """Replays a workload under each discipline; EASY must agree with plain Python."""
    records = case.jobs.jobs
    columns = [records[name].tolist() for name in ("submit_s", "run_s", "limit_s", "nodes")]
    plain_starts_s: list[int] = []
    plain_s = best_cpu_s(
        min(repetitions, 3), lambda: plain_starts_s.__setitem__(slice(None), plain_easy(*columns, case.nodes))
    )
    jobs = len(records)
    rows = [{"discipline": "easy, plain Python", "workload": case.name, "jobs_per_cpu_s": jobs / plain_s, "ratio": 1.0}]
    for name, world in case.worlds.items():
        replay = Replay(world, case.jobs)
        replay.prepare()
        replay.run()  # kernels are compiled or loaded here
        cpu_s = best_cpu_s(repetitions, replay.run, replay.prepare)
        if name == "easy":
            assert np.array_equal(replay.starts_s, plain_starts_s), "EASY's two schedules differ"
        rows.append(
            {"discipline": name, "workload": case.name, "jobs_per_cpu_s": jobs / cpu_s, "ratio": plain_s / cpu_s}
        )
    return rows


class Replay:
    """One workload, made ready and replayed again and again."""

    def __init__(self, world: World, jobs: Workload) -> None:
        self.make = lambda: Simulation(world.cluster, jobs, world.discipline, world.settings)

    def prepare(self) -> None:
        """A simulation in which nothing has happened yet."""
        self.simulation = self.make()

    def run(self) -> None:
        """Replay it to the end."""
        self.starts_s = self.simulation.run().start_s


# -- forks ----------------------------------------------------------------------------------------------------------


def measure_forks(case: Case | None, repetitions: int) -> dict[str, Any]:
    """Fork and go back, in the middle of a replay under ``slurm``."""
    settings = SlurmSettings.lonestar6()
    if case is None:
        table = generate_workload(builtin_model("lonestar6-like"), days=150, seed=1)
        jobs, name = workload(table, Cluster.pool(LS6_NODES), refuse=False), "lonestar6-like, 150 days"
    else:
        jobs, name = case.jobs, case.name
    sim = Simulation(Cluster.pool(LS6_NODES), jobs, "slurm", settings)
    sim.advance(int(jobs.jobs.submit_s[len(jobs.jobs) // 2]))
    view = sim.view()
    branch = sim.fork()
    calls = 200

    def fork_and_restore() -> None:
        for _ in range(calls):
            sim.restore(sim.fork())

    def restore() -> None:
        for _ in range(calls):
            sim.restore(branch)

    return {
        "state": f"{name}, half way",
        "running": len(view.running),
        "pending": len(view.pending),
        "fork_and_restore_us": best_cpu_s(repetitions, fork_and_restore) / calls * 1e6,
        "restore_in_place_us": best_cpu_s(repetitions, restore) / calls * 1e6,
    }


# -- first use --------------------------------------------------------------------------------------------------------


def measure_first_use(repetitions: int, names: list[str]) -> dict[str, Any]:
    """Compiles into an empty cache of its own, then starts again from the full one."""
    with tempfile.TemporaryDirectory() as cache:
        compile_cpu_s, compile_wall_s = _in_new_process(cache, names)
        starts = [_in_new_process(cache, ["easy"]) for _ in range(repetitions)]
    return {
        "compiled": names,
        "first_compile_cpu_s": compile_cpu_s,
        "first_compile_wall_s": compile_wall_s,
        "cached_start_cpu_s": min(cpu_s for cpu_s, _ in starts),
        "cached_start_wall_s": min(wall_s for _, wall_s in starts),
    }


def _in_new_process(cache: str, names: list[str]) -> tuple[float, float]:
    """Processor and wall-clock seconds of a process that uses each name once."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment["XDG_CACHE_HOME"] = cache
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = time.perf_counter()
    subprocess.run([sys.executable, str(HERE / "first_use.py"), *names], env=environment, check=True)
    wall_s = time.perf_counter() - begun_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


# -- the environment --------------------------------------------------------------------------------------------------


def measure_environment(windows: int, steps: int, repetitions: int) -> dict[str, Any]:
    """Decisions per second of the vectorised environment, and of a loop over the single one."""
    try:
        from mirage.provision.environment.chain_env import ChainEnv, ChainVectorEnv, builtin_episode_table
    except ImportError as error:
        return {"skipped": str(error)}
    build_cpu_s = best_cpu_s(1, lambda: builtin_episode_table(windows=windows))
    bank, many = builtin_episode_table(windows=windows), 1024
    rng = np.random.default_rng(0)
    actions = (rng.random((steps, many)) < 0.02).astype(np.int64)
    vector, single = ChainVectorEnv(many, bank), ChainEnv(bank)
    decisions = 0

    def step_many() -> None:
        nonlocal decisions
        vector.reset(seed=0)
        decisions, ended = 0, np.zeros(many, dtype=bool)
        for action in actions:
            decisions += many - int(ended.sum())  # an environment that has ended only begins anew
            ended = vector.step(action)[2]

    def step_one() -> None:
        single.reset(seed=0)
        for action in actions.flat[:steps]:
            if single.step(action)[2]:
                single.reset()

    many_s, one_s = best_cpu_s(repetitions, step_many), best_cpu_s(repetitions, step_one)
    return {
        "environments": many,
        "decisions_per_cpu_s": decisions / many_s,
        "single_decisions_per_cpu_s": steps / one_s,
        "bank_episodes": len(bank),
        "bank_cpu_s": build_cpu_s,
    }


# -- the report -----------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "unknown")
    load = os.getloadavg() if hasattr(os, "getloadavg") else (0.0,)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load_average": round(load[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "mirage": mirage.__version__,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def show(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    facts = results["machine"]
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    table = Table("discipline", "workload")
    for heading in ("jobs / CPU-s", "of plain Python"):
        table.add_column(heading, justify="right")
    for row in results["disciplines"]:
        table.add_row(row["discipline"], row["workload"], f"{row['jobs_per_cpu_s']:,.0f}", f"{row['ratio']:.1f}")
    console.print(table)
    for reason in results["skipped"]:
        console.print(f"skipped: {reason}")
    forks, first = results["forks"], results["first_use"]
    console.print(
        f"fork + restore {forks['fork_and_restore_us']:.1f} µs, restore in place {forks['restore_in_place_us']:.1f} µs "
        f"({forks['state']}: {forks['running']} running, {forks['pending']} pending)"
    )
    console.print(
        f"first compile of {', '.join(first['compiled'])}: {first['first_compile_cpu_s']:.1f} CPU-s "
        f"({first['first_compile_wall_s']:.1f} s), cached start {first['cached_start_cpu_s']:.2f} CPU-s "
        f"({first['cached_start_wall_s']:.2f} s)"
    )
    environment = results["environment"]
    if "skipped" in environment:
        console.print(f"environment skipped: {environment['skipped']}")
        return
    console.print(
        f"environment {environment['decisions_per_cpu_s']:,.0f} decisions / CPU-s in {environment['environments']} "
        f"at once, {environment['single_decisions_per_cpu_s']:,.0f} singly; playing its "
        f"{environment['bank_episodes']} episodes beforehand took {environment['bank_cpu_s']:.1f} CPU-s"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="everything once, on less")
    parser.add_argument("-o", "--output", type=Path, default=HERE.parent / "results" / "simulator.json")
    quick = (arguments := parser.parse_args()).quick
    repetitions = 1 if quick else 7
    traced = lonestar6()
    cases = [generated(5_000 if quick else 100_000), *([traced] if traced else [])]
    results = {
        "command": " ".join(["python", "benchmarks/simulator/simulator.py", *sys.argv[1:]]),
        "machine": machine(),
        "disciplines": [row for case in cases for row in measure_case(case, repetitions)],
        "skipped": [] if traced else [f"Lonestar6: no trace at {LS6_TRACE}; set MIRAGE_DATA to the folder it lies in"],
        "forks": measure_forks(traced, repetitions),
        "first_use": measure_first_use(repetitions, ["easy"] if quick else [*DISCIPLINES, "what-if"]),
        "environment": measure_environment(2 if quick else 42, 100 if quick else 2_000, repetitions),
    }
    show(results, Console(width=120))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
