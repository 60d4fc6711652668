"""What was observed of a rehearsal: two runs of one script, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.presets.detect import ScriptShape

STEP = re.compile(
    r"(?:^|[\s,{'\"(\[])(?:global_?step|step|iteration|iter)['\"]?\s*[=:/ ]\s*(\d{1,3}(?:,\d{3})+|\d+)(?![\d.]*%)",
    re.IGNORECASE,
)
"""A step in a line of output: not a number of steps, nor a percentage."""

_RUN_BY_PYTHON = r"^\S+(?:\s+-[WX]\s+\S+|\s+-(?![mc]\b)\S+)*\s+(?:-m\s+)?(?:\S*/)?"
_LAUNCHERS = {
    name: re.compile(rf"{_RUN_BY_PYTHON}(?:{known})(?:\s|$)")
    for name, known in {
        "torchrun": r"torchrun|torch[./]distributed[./](?:run|launch)(?:\.py)?",
        "accelerate": r"accelerate\s+launch|accelerate-launch|accelerate\.commands\.(?:launch|accelerate_cli\s+launch)",
        "deepspeed": r"deepspeed|deepspeed[./]launcher\S*",
    }.items()
}
"""Command lines of launchers: only the program counts that Python runs, not its arguments."""

_STOPS = {"USR1", "USR2", "TERM"}


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """A process of a job at one time.

    Attributes:
        program: Name of its executable.
        step: Number of its step; empty in the batch step.
        catches: Signals for which it has a handler.
        ignores: Signals that it ignores.
    """

    pid: int
    parent: int
    program: str
    command: str
    step: str = ""
    catches: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()

    @property
    def launcher(self) -> str:
        """Name of the launcher that it is; empty for another process."""
        if not self.is_python:
            return ""
        return next((name for name, known in _LAUNCHERS.items() if known.match(self.command)), "")

    @property
    def is_python(self) -> bool:
        """Whether Python runs it."""
        return self.program.startswith(("python", "pt_main"))

    def starts_apart_from(self, parent: ObservedProcess) -> bool:
        """Whether it is a program of its own, and no fork or helper of its parent."""
        return self.command != parent.command and " -c " not in self.command


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file below the working directory.

    Attributes:
        size: Bytes; −1 where it is gone.
    """

    time_s: float
    path: str
    size: int
    inode: int = 0


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """One job of a rehearsal.

    Attributes:
        shell: Process of the batch shell.
        output: Path of the job's output.
        signal: The signal of the warning; empty for none.
        to_batch_shell: Whether the batch shell got it; otherwise all steps did.
        signalled_s: Time of the warning.
        killed_s: Time at which the job was ended as by its limit; infinite if it had left by then.
        samples: Times and processes, at each change.
        lines: Times and lines of the output.
        steps: Times and steps, from the progress file or the output.
        saves: Times and steps of checkpoints that the training itself reported.
        exit_code: Exit status of a job that has failed; 0 for any other.
    """

    job: int
    shell: int
    output: str
    signal: str
    to_batch_shell: bool
    signalled_s: float
    killed_s: float
    ended_s: float
    samples: tuple[tuple[float, tuple[ObservedProcess, ...]], ...] = ()
    files: tuple[FileChange, ...] = ()
    lines: tuple[tuple[float, str], ...] = ()
    steps: tuple[tuple[float, int], ...] = ()
    saves: tuple[tuple[float, int], ...] = ()
    exit_code: int = 0

    def at(self, time_s: float) -> tuple[ObservedProcess, ...]:
        """The processes at a time."""
        known: tuple[ObservedProcess, ...] = ()
        for at_s, processes in self.samples:
            if at_s > time_s:
                break
            known = processes
        return known

    def last_s(self, pid: int) -> float:
        """The time at which a process was gone; infinite if it was there in the last sample."""
        gone = float("inf")
        for at_s, processes in self.samples:
            there = any(process.pid == pid for process in processes)
            gone = float("inf") if there else min(gone, at_s)
        return gone

    def trainers(self) -> tuple[ObservedProcess, ...]:
        """The Python processes at the warning that are no launchers.

        Those that they forked are left out, and so is a program that handles nothing and only starts another one.
        """
        processes = [p for p in self.at(self.signalled_s) if p.is_python and not p.launcher]
        started = {c.parent for c in processes for p in processes if c.parent == p.pid and c.starts_apart_from(p)}
        starters = {p.pid for p in processes if p.pid in started and not _STOPS & {*p.catches}}
        numbers = {p.pid for p in processes} - starters
        return tuple(p for p in processes if p.pid in numbers and p.parent not in numbers)

    def launchers(self) -> tuple[ObservedProcess, ...]:
        """The launchers at the warning."""
        return tuple(p for p in self.at(self.signalled_s) if p.launcher)

    @property
    def warned(self) -> bool:
        """Whether the batch shell was there at the warning."""
        return self.last_s(self.shell) > self.signalled_s

    @property
    def left(self) -> bool:
        """Whether it left on the warning before it was killed.

        A launcher may need seconds more than its trainers.
        """
        trainers = self.trainers()
        gone = bool(trainers) and all(self.last_s(trainer.pid) < self.killed_s for trainer in trainers)
        return gone or self.killed_s == float("inf")

    def changes(self, from_s: float, until_s: float = float("inf")) -> tuple[FileChange, ...]:
        """The changes of files within a period."""
        return tuple(change for change in self.files if from_s <= change.time_s <= until_s)

    @property
    def text(self) -> str:
        """The output."""
        return "\n".join(line for _, line in self.lines)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Both runs of a rehearsal.

    Attributes:
        shape: What the text of the script shows.
        kill_wait_s: Slurm's time between SIGTERM and SIGKILL.
        foreign: Changes of files at a time at which neither run was there.
        log_lost: Whether the second run has truncated the output of the first.
        delivers: What the wrapper of a preset sends: a signal, ``file`` or ``none``; empty without a wrapper.
        outlived: Whether a process of the first run printed steps after the end of its job.
    """

    first: ObservedRun
    second: ObservedRun
    shape: ScriptShape
    kill_wait_s: float
    foreign: tuple[FileChange, ...] = ()
    log_lost: bool = False
    delivers: str = ""
    outlived: bool = False


def read_run(
    record: Path, progress: Path, job: int, warning: tuple[str, bool, float], killed_s: float, ended_s: float
) -> ObservedRun:
    """The run that an observer has recorded.

    Args:
        progress: File of ``mirage.hooks.progress``; it may be missing.
        warning: The signal, whether the batch shell got it, and when.

    Raises:
        OSError: There is no record.
    """
    samples, files, lines, shell, output, place, ended = [], [], [], 0, "", 0, False
    for entry in _entries(record):
        time_s = entry["time_s"]
        if "processes" in entry:
            samples.append((time_s, tuple(_process(p) for p in entry["processes"])))
        elif "file" in entry:
            files.append(FileChange(time_s, entry["file"], entry["size"], entry["inode"]))
        elif "line" in entry:
            lines.append((time_s, entry["line"]))
        elif "shell" in entry:
            shell, output, place = entry["shell"], entry["output"], entry["place"]
        ended = ended or "over" in entry
    if not ended:  # the observer was ended with the job
        samples.append((ended_s, ()))
    lines += [(ended_s, line) for line in _unrecorded(Path(output), place, len(lines))]
    reports = list(_entries(progress)) if progress.exists() else []
    steps = [(entry["time_s"], entry["step"]) for entry in reports if "step" in entry] or list(_steps(lines))
    saves = [(entry["time_s"], entry["saved"]) for entry in reports if "saved" in entry]
    name, to_shell, at_s = warning
    return ObservedRun(
        job, shell, output, name, to_shell, at_s, killed_s, ended_s, tuple(samples), tuple(files), tuple(lines),
        tuple(steps), tuple(saves),
    )  # fmt: skip


def _unrecorded(output: Path, place: int, recorded: int) -> list[str]:
    """The last lines of a job's output, which its observer has not read before it ended."""
    if not output.is_file():
        return []
    text = output.read_bytes()[place:].decode(errors="replace")
    return [line for line in text.split("\n")[recorded:] if line]


def _steps(lines: Sequence[tuple[float, str]]) -> Iterator[tuple[float, int]]:
    for time_s, line in lines:
        if found := STEP.search(line):
            yield time_s, int(found[1].replace(",", ""))


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    yield from _entries_of(path.read_text(encoding="utf-8", errors="replace"))


def _entries_of(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the last line of a killed process
            continue


def _process(entry: dict[str, Any]) -> ObservedProcess:
    return ObservedProcess(**{**entry, "catches": tuple(entry["catches"]), "ignores": tuple(entry["ignores"])})


class FirstStep:
    """The time of the first step of a run while it is recorded.

    Each line is read once: a job that prints no step may print for minutes.
    """

    def __init__(self, record: Path, progress: Path) -> None:
        self._places = {progress: 0, record: 0}
        self._time_s: float | None = None

    def time_s(self) -> float | None:
        """The time of the first step so far; None for none."""
        for path in self._places if self._time_s is None else ():
            found = [entry["time_s"] for entry in self._new_entries(path) if _is_step(entry)]
            self._time_s = min([*found, *([] if self._time_s is None else [self._time_s])], default=None)
        return self._time_s

    def _new_entries(self, path: Path) -> list[dict[str, Any]]:
        """The entries of complete lines since the last call."""
        try:
            with path.open("rb") as file:
                file.seek(self._places[path])
                lines = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        self._places[path] += len(lines) + 1 if lines else 0
        return list(_entries_of(lines.decode(errors="replace")))


def _is_step(entry: dict[str, Any]) -> bool:
    return "step" in entry or STEP.search(entry.get("line", "")) is not None
