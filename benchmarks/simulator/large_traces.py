"""Memory and processor time of ``mirage simulate`` on large traces, in SWF and in CSV.

    python benchmarks/simulator/large_traces.py                              # 1 and 3 million jobs, half a minute
    python benchmarks/simulator/large_traces.py --jobs 200000,10000000       # more memory: about 290 bytes a job

A command is measured as a whole, in a process of its own, after one that compiles. Bytes a job are the difference of
the peaks of the largest and the smallest trace: neither Python nor the arrays of a piece of text count.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage.job_state import JobState
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

FORMATS = ("swf", "csv")
PROCESSORS = 352


class Used(NamedTuple):
    """What a command used: processor time in s, and peak memory in bytes."""

    cpu_s: float
    peak: int


def write_jobs(count: int, seed: int, paths: list[Path]) -> None:
    """Writes a light load: jobs of 1 to 4 processors, one every 200 s on average."""
    random = np.random.default_rng(seed)
    run_s = random.integers(60, 7_200, count)
    processors = random.choice([1, 2, 4], count)
    table = JobTable.build(
        np.arange(1, count + 1), submit_s=np.cumsum(random.exponential(200, count).astype(np.int64)), elapsed_s=run_s,
        limit_s=2 * run_s, nodes=processors, cpus=processors, state=np.full(count, JobState.COMPLETED),
        user=(f"{user}" for user in random.integers(1, 300, count)), account=["1"] * count, partition=["1"] * count,
        qos=["1"] * count,
    )  # fmt: skip
    for path in paths:
        write_trace(table, path)


def simulated(trace: Path) -> Used:
    """Simulates a trace in a new process.

    Raises:
        subprocess.CalledProcessError: The command failed.
    """
    command = [sys.executable, "-m", "mirage", "simulate", str(trace), "--discipline", "easy", "--json"]
    command += ["--processors" if trace.suffix == ".swf" else "--nodes", str(PROCESSORS)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Used(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def main() -> None:
    """Prints a line for every trace, the bytes a job, and the ratio of CSV to SWF."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="1000000,3000000", metavar="N,N", help="numbers of jobs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts = sorted(int(count) for count in options.jobs.split(","))
    found: dict[tuple[str, int], Used] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            traces = [Path(folder) / f"jobs.{form}" for form in FORMATS]
            arguments = (count, options.seed, traces)
            writer = multiprocessing.get_context("spawn").Process(target=write_jobs, args=arguments)
            writer.start()  # in another process: the peak of a command counts the memory of the process that starts it
            writer.join()
            for form, trace in zip(FORMATS, traces):
                if not found:
                    simulated(trace)  # compiles
                found[form, count] = used = simulated(trace)
                print(
                    f"{form} {count:>11,} jobs: {used.cpu_s:6.2f} CPU-s, peak {used.peak / 2**20:7,.0f} MiB", flush=True
                )
                trace.unlink()
    least, most = counts[0], counts[-1]
    for form in FORMATS if most > least else ():
        each = (found[form, most].peak - found[form, least].peak) / (most - least)
        print(f"{form}: {each:.0f} bytes a job between {least:,} and {most:,} jobs")
    print(f"csv / swf, processor time at {most:,} jobs: {found['csv', most].cpu_s / found['swf', most].cpu_s:.2f}")


if __name__ == "__main__":
    main()
