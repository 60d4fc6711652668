"""A rehearsal: a job that is warned and ended as at its limit, and the job that resumes."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from mirage.duration import format_duration
from mirage.errors import MirageError
from mirage.job_state import UNFINISHED, JobState
from mirage.presets.detect import ScriptShape
from mirage.presets.wrapper import OBSERVER, with_statement
from mirage.process import cleanup_at_signals
from mirage.real_time import on_this_clock_s, wait_until
from mirage.rehearsal import observer
from mirage.rehearsal.traps import Trap, checkpoint_changes, find_traps, saved_on_warning, saved_step
from mirage.rehearsal.two_runs import STEP, FileChange, FirstStep, ObservedRun, Rehearsal, read_run
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Submission

GAP_S = 2.5
"""Seconds between the two runs in which no file of the training may change."""

POLL_S = 1.0
"""Seconds between two polls of a job."""

STEPS_S = 1.5
"""Seconds for which the second run is observed after its first step."""


@dataclass(frozen=True, slots=True)
class RehearsalPlan:
    """What a rehearsal does.

    Attributes:
        signal: The signal of the warning.
        to_batch_shell: Whether the batch shell gets it (``B:``); otherwise the steps.
        lead_s: Time from the warning to the end.
        after_s: Time from the first step to the warning.
        patience_s: Time for a job to start.
        first_step_s: Time for its first step.
        delivers: What the wrapper of a preset sends; empty without a wrapper.
    """

    signal: str
    to_batch_shell: bool
    lead_s: int
    after_s: float
    patience_s: float
    first_step_s: float
    delivers: str = ""


@dataclass(frozen=True, slots=True)
class RehearsalResult:
    """The outcome of a rehearsal.

    Attributes:
        longest_step_s: Longest time between two steps of the first run; NaN where no steps were found.
        save_s: Time of the save on the warning, without the step before it; NaN where there was none.
        lead_s: The lead that is needed: longest step + save + KillWait, rounded up; NaN where unknown.
        saved: Step of the newest checkpoint of the first run; −1 for none.
        resumed: First step of the second run; −1 for none.
        lost: Steps that were computed twice; −1 where unknown.
        left: Whether the first job was there at the warning, and left before its end.
        failed: Whether the second job failed while it was observed.
        way: The way of the signal, one line for each hop; empty where none was sent.
    """

    traps: tuple[Trap, ...]
    longest_step_s: float
    save_s: float
    lead_s: float
    saved: int
    resumed: int
    lost: int
    left: bool
    failed: bool
    way: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the first run left, the second one resumed, and no trap nor failure was found."""
        return not self.traps and self.left and not self.failed and self.resumed > 0 and self.saved > 0


def rehearse(
    slurm: SlurmClient, submission: Submission, script: bytes, name: str, shape: ScriptShape, plan: RehearsalPlan,
    folder: Path, kill_wait_s: float, report: Callable[[str], None], clock: Callable[[], float],
) -> Rehearsal:  # fmt: skip
    """Run both jobs of a rehearsal.

    Args:
        script: The batch script, with the wrapper of a preset where it has one.
        name: Name of the script.
        folder: An empty folder that the nodes can write to.
        report: Gets a line at each stage.

    Raises:
        SlurmRefused: Slurm refuses the job or a signal.
        MirageError: A job did not start in time, or its observer wrote nothing.
    """
    path = folder / name
    path.write_bytes(with_statement(script, _observed(folder)))
    shutil.copy(observer.__file__, folder / "observer.py")
    own = replace(submission, script=str(path))
    with cleanup_at_signals() as check:  # the end of the command cancels its job
        first = _run(slurm, own, plan, folder, kill_wait_s, report, clock, check)
        output = Path(first.output)
        before = output.read_bytes() if output.is_file() else b""
        foreign = _foreign(Path(submission.directory), first, folder / "record", clock)
        late = output.read_bytes()[len(before) :] if output.is_file() else b""
        second_plan = replace(plan, signal="", after_s=STEPS_S)
        second = _run(slurm, own, second_plan, folder, kill_wait_s, report, clock, check)
    printed = {os.path.realpath(f"/proc/self/fd/{number}") for number in (1, 2)}  # this command's own output
    first, second = (replace(run, files=_without(run.files, submission.directory, printed)) for run in (first, second))
    same = first.output == second.output and output.is_file()
    lost = same and not output.read_bytes().startswith(before[: 1 << 20])
    outlived = STEP.search(late.decode(errors="replace")) is not None
    return Rehearsal(first, second, shape, kill_wait_s, foreign, lost, plan.delivers, outlived)


def judge(rehearsal: Rehearsal) -> RehearsalResult:
    """The outcome of a rehearsal: traps, the lead that is needed, and the proof of the resume."""
    restart = next((pair for pair in pairwise(rehearsal.first.steps) if pair[1][1] < pair[0][1] - 1), None)
    if rehearsal.outlived or restart is not None:
        rehearsal = replace(rehearsal, second=replace(rehearsal.second, steps=()))
    first, second = rehearsal.first, rehearsal.second
    steps = [s for s in first.steps if s[0] <= first.signalled_s]
    gaps = [(b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairwise(steps)]
    longest_s = max(gaps, default=math.nan)
    done_s = first.saves[-1][0] if first.saves else max((c.time_s for c in checkpoint_changes(first, 0)), default=0.0)
    begun_s = max([first.signalled_s, *(time_s for time_s, _ in first.steps if time_s <= done_s)])
    save_s = done_s - begun_s if saved_on_warning(rehearsal) and done_s >= first.signalled_s else math.nan
    saved, resumed = saved_step(first), second.steps[0][1] if second.steps else -1
    last = max((step for _, step in first.steps), default=-1)
    traps = find_traps(rehearsal)
    notes = []
    early = f"{_ended(first.job, first.exit_code)} before the warning"
    if not first.warned and first.steps:
        notes.append(f"{early}: see {first.output}, or give a shorter --after")
    elif not first.warned:
        notes.append(
            f"{early}, and showed no step: see {first.output}; report steps with mirage.hooks.progress, or print "
            "`step N`"
        )
    elif not first.steps:
        notes.append("no steps were found: report them with mirage.hooks.progress, or print `step N`")
    if second.exit_code:
        notes.append(f"{_ended(second.job, second.exit_code)}: see {second.output}")
    ignoring = any(p.pid == first.shell and first.signal in p.ignores for p in first.at(first.signalled_s))
    if first.warned and first.to_batch_shell and ignoring and not first.trainers():
        notes.append(f"the batch shell of job {first.job} ignores {first.signal}: let its trap pass the signal on")
    elif first.warned and not first.left and not first.trainers():
        notes.append(
            f"no Python process of job {first.job} was observed: start the training with the environment of the job "
            "(--export, --cleanenv)"
        )
    if rehearsal.outlived:
        notes.append(
            f"a process of job {first.job} still prints steps after its end, so the steps of job {second.job} are "
            "unknown: end that process, and start it so that it ends with the job"
        )
    elif restart is not None:
        notes.append(
            f"the steps of job {first.job} restart, as in each epoch (from {restart[0][1]} to {restart[1][1]}), so "
            "they cannot prove a resume: report the step of the whole training with mirage.hooks.progress"
        )
    elif first.steps and not second.steps:
        notes.append("the second run showed no step: its resume is not proven")
    lead_s = math.ceil(max(longest_s, 0) + save_s + rehearsal.kill_wait_s) if save_s == save_s and gaps else math.nan
    return RehearsalResult(
        traps, longest_s, save_s, lead_s, saved, resumed, max(last - resumed + 1, 0) if min(last, resumed) >= 0 else -1,
        first.warned and first.left, second.exit_code != 0, tuple(way_of(first) if first.warned else ()), tuple(notes),
    )  # fmt: skip


def _ended(job: int, exit_code: int) -> str:
    """The end of a job in words, with what the status of a failure means for a chain."""
    failure = f" with exit status {exit_code} (a chain pauses after three jobs in a row that fail so soon)"
    return f"job {job} had ended" + failure * bool(exit_code)


def way_of(run: ObservedRun) -> list[str]:
    """The way of the signal: from slurmctld over the batch shell to the processes."""

    def facts(pid: int) -> str:
        gone_s = run.last_s(pid) - run.signalled_s
        return f"gone after {max(gone_s, 0):.1f} s" if math.isfinite(gone_s) else "there until the end"

    lines = [f"slurmctld: {run.signal} to {'the batch shell' if run.to_batch_shell else 'the steps'} of job {run.job}"]
    for process in run.at(run.signalled_s):
        if OBSERVER in process.command or (process.program == "slurmstepd"):
            continue
        kind = "batch shell" if process.pid == run.shell else process.launcher or process.program
        has = f"handles {', '.join(process.catches)}" if process.catches else "handles nothing"
        lines.append(f"{kind} {process.pid}: {has}; {facts(process.pid)}")
    lines += [line for _, line in run.lines if line.startswith("mirage: ")]
    how = "left" if run.left else "ended as by its limit"
    lines.append(f"job {run.job}: {how} {run.ended_s - run.signalled_s:.1f} s after it")
    return lines


def _run(
    slurm: SlurmClient, submission: Submission, plan: RehearsalPlan, folder: Path, kill_wait_s: float,
    report: Callable[[str], None], clock: Callable[[], float], check: Callable[[], None],
) -> ObservedRun:  # fmt: skip
    """One job: it is warned after some steps, and ended when its lead is over.

    Args:
        check: Called while it runs; raises if the command is to end, and the job is cancelled then.
    """

    def waited(condition: Callable[[], bool], longest_s: float) -> bool:
        """Whether a condition becomes true within some seconds of this process's clock."""

        def checked() -> bool:
            check()
            return condition()

        return wait_until(checked, longest_s / on_this_clock_s(1.0), POLL_S)

    check()
    job = slurm.submit(submission)
    try:
        record, progress = folder / f"record.{job}", folder / f"progress.{job}"
        report(f"job {job} is submitted")
        waits = _WaitReasons(slurm, job, report)
        if not waited(lambda: record.exists() or waits.over(), plan.patience_s):
            raise MirageError(f"job {job} did not start within {plan.patience_s:g} s; give a longer --patience")
        if not waited(record.exists, on_this_clock_s(5)):
            begun = folder / f"output.{job}"
            output = begun.read_text(encoding="utf-8") if begun.exists() else ""
            ended = f"{_ended(job, _exit_code(slurm, job))} and nothing was recorded"
            raise MirageError(
                f"{ended}: it ended at once (see its output, {output}), or its node could not run {sys.executable} "
                f"(see {folder}/observer.{job})"
                if output
                else f"{ended}; the nodes must be able to write to {folder}; see the job's output"
            )

        report(f"job {job} runs; waits for its first step, for at most {format_duration(round(plan.first_step_s))}")
        first = FirstStep(record, progress)

        def stepped() -> bool:
            first_s = first.time_s()
            return first_s is not None and clock() >= first_s + plan.after_s

        waited(lambda: stepped() or _over(slurm, job), plan.first_step_s + plan.after_s)
        left = _over(slurm, job)
        signalled_s = clock()
        if warned := bool(plan.signal) and not left:
            report(f"job {job} gets {plan.signal}, {plan.lead_s} s before its end")
            if plan.to_batch_shell:
                slurm.signal(job, plan.signal, to_batch_shell=True)
            else:
                slurm.signal_steps(job, plan.signal)
            left = waited(lambda: _over(slurm, job), plan.lead_s)
    finally:
        killed_s = clock()
        slurm.cancel(job)  # SIGTERM to all processes, SIGKILL after KillWait: as the limit does
    wait_until(lambda: _over(slurm, job), 120, POLL_S)
    wait_until(lambda: '"over"' in record.read_text(encoding="utf-8"), kill_wait_s + 2, POLL_S)
    ended_s = killed_s if left else clock()
    signalled_s = signalled_s if warned else clock()  # after its last sample
    run = read_run(
        record, progress, job, (plan.signal, plan.to_batch_shell, signalled_s), math.inf if left else killed_s, ended_s
    )
    return replace(run, exit_code=_exit_code(slurm, job))


class _WaitReasons:
    """Reports once for what a pending job waits, where that is not its turn."""

    def __init__(self, slurm: SlurmClient, job: int, report: Callable[[str], None]) -> None:
        self._slurm, self._job, self._report = slurm, job, report
        self._reported = {"", "None", "Priority", "Resources"}

    def over(self) -> bool:
        """Whether the job has ended; reports a new reason why it waits."""
        found = self._slurm.observe_jobs([self._job])
        for reason in {one.reason for one in found if one.state is JobState.PENDING} - self._reported:
            self._reported.add(reason)
            self._report(f"job {self._job} waits: {reason}")
        return all(one.state not in UNFINISHED for one in found)


def _over(slurm: SlurmClient, job: int) -> bool:
    """Whether a job has ended, or the controller has forgotten it."""
    return all(found.state not in UNFINISHED for found in slurm.observe_jobs([job]))


def _exit_code(slurm: SlurmClient, job: int) -> int:
    """The exit status of a job that has failed; 0 for any other."""
    return next((one.exit_code for one in slurm.observe_jobs([job]) if one.state is JobState.FAILED), 0)


def _without(files: tuple[FileChange, ...], directory: str, paths: set[str]) -> tuple[FileChange, ...]:
    return tuple(change for change in files if os.path.realpath(Path(directory, change.path)) not in paths)


def _foreign(directory: Path, first: ObservedRun, record: Path, clock: Callable[[], float]) -> tuple[FileChange, ...]:
    """Changes of files while no run is there."""
    before = observer.files_below(str(directory), first.output, str(record))
    wait_until(lambda: False, GAP_S, GAP_S)
    after = observer.files_below(str(directory), first.output, str(record))
    changed = [path for path in after if before.get(path) != after[path]]
    return tuple(FileChange(clock(), path, after[path][0], after[path][2]) for path in changed)


def _observed(folder: Path) -> str:
    """The statement of a batch script that starts the observer, and waits 5 s at most."""
    place = shlex.quote(str(folder))
    python = f"$(command -v {shlex.quote(sys.executable)} python3 | head -1)"
    return (
        'case "${MIRAGE_OBSERVED:-}" in "$SLURM_JOB_ID"-*) ;; *)\n'
        '    export MIRAGE_OBSERVED="$SLURM_JOB_ID-$(cat /proc/sys/kernel/random/uuid)" MIRAGE_REHEARSAL=1\n'
        f'    export MIRAGE_PROGRESS_FILE={place}/"progress.$SLURM_JOB_ID"\n'
        f'    printf %s "$(readlink /proc/$$/fd/1)" > {place}/"output.$SLURM_JOB_ID"\n'
        f'    (setsid "{python}" -S -E {place}/observer.py {OBSERVER} {place}/"record.$SLURM_JOB_ID" \\\n'
        '        "$MIRAGE_OBSERVED" $$ \\\n'
        f'        < /dev/null > {place}/"observer.$SLURM_JOB_ID" 2>&1 &)\n'
        f'    for _ in $(seq 50); do [ ! -s {place}/"record.$SLURM_JOB_ID" ] || break; sleep 0.1; done\n'
        ";; esac\n"
    )


def warning_of(given: str | None, signal: str, lead_s: int) -> tuple[str, bool, int]:
    """The warning of a job: signal, whether the batch shell gets it, lead in seconds.

    Args:
        given: The user's own ``--signal``, such as ``B:USR1@60``; None for none.
        signal: The signal without it, for the batch shell.
        lead_s: The lead without it.
    """
    found = re.fullmatch(r"(?:([RB]+):)?(?:SIG)?(\w+)(?:@(\d+))?", given or "")
    if not found:
        return signal, True, lead_s
    return found[2].upper(), "B" in (found[1] or ""), int(found[3] or 60)
