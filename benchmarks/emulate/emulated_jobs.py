"""Accuracy and cost of emulated jobs, each with a reference in the same run.

``clock``: total time errors of jobs on the deadline clock, next to two busy processes; reference: a sleep per step.
``fused``: processor share of fused jobs at 60 times the speed; reference: the same jobs with a wake per step.
``ledger``: operations per second of writers on one device, some of them killed; reference: the file lock alone.
``infer``: requests and streamed tokens per second of server processor time; reference: ``/health`` of the same server.

    python benchmarks/emulate/emulated_jobs.py clock fused ledger infer -o results.json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirage.emulate.deadline_clock import DeadlineClock, WarningSignals
from mirage.emulate.device_ledger import DeviceLedger
from mirage.emulate.emulated_training import EmulatedTraining, TrainingPlan
from mirage.emulate.step_time import CARDS, TrainingStep
from mirage.errors import OutOfDeviceMemory
from mirage.schedule.speeds.profiles import Origin


def in_children(n: int, work: Callable[[int], Any]) -> list[Any]:
    """Results of a function in n processes at once."""
    readers = []
    for k in range(n):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            os.write(write, json.dumps(work(k)).encode())
            os._exit(0)
        os.close(write)
        readers.append(read)
    found = []
    for read in readers:
        with open(read, "rb") as file:
            found.append(json.loads(file.read()))
    for _ in range(n):
        os.wait()
    return found


@contextlib.contextmanager
def busy_processes(n: int) -> Any:
    """Processes that use a core each."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def plan(step_s: float, seconds: float, folder: Path | None = None, job: int = 0) -> TrainingPlan:
    """A training of some emulated seconds; with a folder, it saves and reports."""
    step = TrainingStep("any", "t4", CARDS["t4"], 1, 1, 32, 32, 1, step_s, 0.0, 1.0, Origin.MEASURED, 1, 0.0, 1, 1)
    steps = round(seconds / step_s)
    if folder is None:
        return TrainingPlan(step, steps, steps, 0.0)
    files = {"checkpoint": folder / f"{job}.ckpt", "progress": folder / f"{job}.json"}
    return TrainingPlan(step, steps, round(300 / step_s), 0.0, 1.0, 600.0, **files)


def train(what: TrainingPlan, speed: float) -> dict[str, float]:
    """Runs a training; returns its relative error and the delay of its latest step."""
    signals = WarningSignals()
    clock = DeadlineClock(speed, wait=signals.wait)
    with signals.on(clock):
        clock.start = clock.now()
        training = EmulatedTraining(what, clock, signals)
        training.run()
        elapsed_s = clock.now_s()
    return {"error": elapsed_s / what.expected_s() - 1, "latest_s": training.late_s / speed}


def sleep(what: TrainingPlan) -> dict[str, float]:
    """The reference: a sleep per step."""
    begin = time.monotonic()
    for _ in range(what.steps):
        time.sleep(what.step.step_s)
    return {"error": (time.monotonic() - begin) / what.expected_s() - 1}


def clock(jobs: int, seconds: float) -> list[dict[str, Any]]:
    """Errors of the total time, by step and speed."""
    rows = []
    with busy_processes(2):
        for step_s, speed in ((0.01, 1), (0.05, 1), (0.2, 1), (0.2, 20)):
            what = plan(step_s, seconds * speed)
            found = in_children(jobs, lambda _, what=what, speed=speed: train(what, speed))
            row = {"step_s": step_s, "speed": speed, "jobs": jobs, "load": os.getloadavg()[0]}
            errors = [abs(one["error"]) for one in found]
            row |= {"mean_error": statistics.mean(errors), "worst_error": max(errors)}
            row["latest_step_s"] = max(one["latest_s"] for one in found)
            if speed == 1:
                slept = [one["error"] for one in in_children(jobs, lambda _, what=what: sleep(what))]
                row |= {"sleep_mean_error": statistics.mean(slept), "sleep_worst_error": max(slept)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def children_cpu_s() -> float:
    """Processor seconds of ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fused(jobs: int, seconds: float) -> list[dict[str, Any]]:
    """Share of a core at 60 times the speed, with checkpoints and progress files."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for step_s, speed, label in ((0.2, 60, "fused"), (0.2 / 60, 1, "a wake per step")):
            before = children_cpu_s()
            folder = Path(name) if speed == 60 else None
            begin = time.monotonic()
            found = in_children(
                jobs,
                lambda job, step_s=step_s, speed=speed, folder=folder: train(
                    plan(step_s, seconds * speed, folder, job), speed
                ),
            )
            share = (children_cpu_s() - before) / (time.monotonic() - begin)
            row = {"what": label, "jobs": jobs, "cores": share, "worst_error": max(abs(one["error"]) for one in found)}
            rows.append(row | {"load": os.getloadavg()[0]})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def ledger(writers: int, seconds: float) -> list[dict[str, Any]]:
    """Operations per second, the most memory held, and what is left of killed writers."""

    def write(path: Path, seed: int, counter: Path) -> None:
        mine, draw, n, most = DeviceLedger(path), random.Random(seed), 0, 0
        with counter.open("r+b", buffering=0) as file:
            while True:
                with contextlib.suppress(OutOfDeviceMemory):
                    mine.hold([0], draw.randint(1, 6000))
                    with mine._locked():
                        most = max(most, sum(owner.memory_mib for owner in mine.device(0).owners))
                    mine.release([0])
                    n += 1
                n += 1
                file.seek(0)
                file.write(n.to_bytes(8, "little") + most.to_bytes(8, "little"))

    def start(path: Path, seed: int, folder: Path) -> int:
        counter = folder / f"{seed}.count"
        counter.write_bytes(bytes(16))
        pid = os.fork()
        if pid == 0:
            write(path, seed, counter)
        return pid

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, capacity = folder / "node.gpus", CARDS["t4"].memory_mib
        watched = DeviceLedger(path, CARDS["t4"])
        pids = [start(path, k, folder) for k in range(writers)]
        begin, killed = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            time.sleep(0.2)
            victim = pids.pop(0)
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            killed += 1
            pids.append(start(path, writers + killed, folder))
        elapsed = time.monotonic() - begin
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        counters = [file.read_bytes() for file in folder.glob("*.count")]
        operations = sum(int.from_bytes(found[:8], "little") for found in counters)
        most = max(int.from_bytes(found[8:], "little") for found in counters)
        left = len(watched.device(0).owners)
        locks, begin = 0, time.monotonic()
        while time.monotonic() - begin < 1:
            fcntl.flock(watched._file, fcntl.LOCK_EX)
            fcntl.flock(watched._file, fcntl.LOCK_UN)
            locks += 1
    row = {
        "writers": writers, "killed": killed, "operations_per_s": operations / elapsed,
        "most_held_mib": most, "capacity_mib": capacity, "left_owners": left, "locks_alone_per_s": locks,
        "load": os.getloadavg()[0],
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return [row]


async def send(port: int, path: str, body: dict[str, Any] | None, connections: int, seconds: float) -> tuple[int, int]:
    """Requests and tokens that some connections get answered in some seconds."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    end = time.monotonic() + seconds
    counts = [0, 0]

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < end:
            writer.write(head + data)
            header = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in header.split(b"\r\n")[0], header
            if b"chunked" in header.lower():
                text = await reader.readuntil(b"\r\n0\r\n\r\n")
                counts[1] += text.count(b'"text_completion"')
            else:
                length = next(
                    int(line.split(b":")[1]) for line in header.lower().split(b"\r\n") if b"content-length" in line
                )
                await reader.readexactly(length)
            counts[0] += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return counts[0], counts[1]


def cpu_s(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def infer(connections: int, seconds: float) -> list[dict[str, Any]]:
    """Rates per second of the server's processor time and of elapsed time."""
    words = ["emulate", "infer", "--model", "m", "--port", "0", "--first-token-s", "0.02", "--token-s", "0.001"]
    server = subprocess.Popen([sys.executable, "-m", "mirage", *words], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    port = int(server.stderr.readline().strip().rpartition(":")[2])
    rows = []
    request = {"model": "m", "prompt": "a b c", "max_tokens": 16}
    try:
        for label, path, body in (
            ("health", "/health", None),
            ("completions", "/v1/completions", request),
            ("streamed", "/v1/completions", {**request, "max_tokens": 128, "stream": True}),
        ):
            before, begin = cpu_s(server.pid), time.monotonic()
            requests, tokens = asyncio.run(send(port, path, body, connections, seconds))
            used, elapsed = cpu_s(server.pid) - before, time.monotonic() - begin
            row = {"what": label, "connections": connections, "requests_per_cpu_s": requests / used}
            row |= {"requests_per_s": requests / elapsed, "load": os.getloadavg()[0]}
            if tokens:
                row |= {"tokens_per_cpu_s": tokens / used, "tokens_per_s": tokens / elapsed}
            rows.append(row)
            print(json.dumps(row), flush=True)
    finally:
        server.terminate()
        server.wait()
    return rows


def main() -> None:
    """Runs the named parts and writes their figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parts = {"clock": clock, "fused": fused, "ledger": ledger, "infer": infer}
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; by default all")
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("-o", "--out", default=None, metavar="FILE")
    given = parser.parse_args()
    counts = {"clock": given.jobs, "fused": given.jobs, "ledger": given.writers, "infer": given.jobs}
    found = {name: parts[name](counts[name], given.seconds) for name in given.parts or parts}
    if given.out:
        Path(given.out).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
