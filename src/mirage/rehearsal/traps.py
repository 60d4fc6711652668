"""The traps of checkpoints on a warning: pure functions of what a rehearsal observed.

Each detector returns the evidence, or an empty text. They are in order of cause before effect: a launcher that is
killed also loses steps, and then only the launcher is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from mirage.presets.preset import FILE, NOTHING
from mirage.rehearsal.two_runs import FileChange, ObservedProcess, ObservedRun, Rehearsal

SOON_S = 5.0
"""A process that is gone this soon after a signal was ended by it."""

DELIVERED_S, MOST_STEPS = 2.0, 2
"""Seconds from the warning to the signal, and steps from the signal to the begin of the save that it causes."""

MOST_LOST = 2
"""Steps between a checkpoint on the warning and the last step that was printed."""

SHUTDOWN_S = (27.0, 37.0)
"""torchrun kills its workers 30 s after TERM (torch 2.13.0, ``TORCH_ELASTIC_SHUTDOWN_TIMEOUT``)."""

LOAD_ERRORS = re.compile(
    r"EOFError|UnpicklingError|JSONDecodeError|unexpected EOF|PytorchStreamReader|BadZipFile|corrupt|truncated"
    r"|checkpoint-is-incomplete|Ran out of input|Error while deserializing",
    re.IGNORECASE,
)
"""Words of errors in loading a file that is only a part of a checkpoint."""

FORCED = re.compile(r"Unable to shutdown process \d+ via .*SIGTERM.*SIGKILL", re.IGNORECASE)
"""torchrun's own message about a worker that it kills."""


@dataclass(frozen=True, slots=True)
class Trap:
    """A trap that a rehearsal ran into.

    Attributes:
        name: A stable name.
        evidence: What was observed.
        remedy: What to do.
    """

    name: str
    evidence: str
    remedy: str


def find_traps(rehearsal: Rehearsal) -> tuple[Trap, ...]:
    """The traps of a rehearsal: the first of save or resume, and those of shared files."""
    found = [trap for detect in _APART if (trap := _found(detect, rehearsal))]
    for detect in _IN_ORDER:
        if trap := _found(detect, rehearsal):
            return (trap, *found)
    return tuple(found)


def _found(detect: Detector, rehearsal: Rehearsal) -> Trap | None:
    evidence = detect(rehearsal)
    name, remedy = REMEDIES[detect.__name__]
    return Trap(name, evidence, remedy) if evidence else None


Detector = Callable[[Rehearsal], str]


# -- what the run did after the warning ----------------------------------------------------------------------


def checkpoint_changes(run: ObservedRun, from_s: float, until_s: float = float("inf")) -> tuple[FileChange, ...]:
    """The changes of files that may be checkpoints: not logs, which change at every step."""
    return tuple(c for c in run.changes(from_s, until_s) if c.size >= 0 and c.path not in _logs(run))


def _logs(run: ObservedRun) -> set[str]:
    """Files that only grow, in most seconds of the training: logs of the script's own."""
    grown: dict[str, list[FileChange]] = {}
    for change in run.files:
        grown.setdefault(change.path, []).append(change)
    found = set()
    for path, changes in grown.items():
        sizes = [change.size for change in changes]
        seconds = {int(change.time_s) for change in changes}
        span_s = max(run.signalled_s - changes[0].time_s, 1.0)
        grows = all(a < b for a, b in pairwise([-1, *sizes])) and len(seconds) >= max(5, span_s / 2)
        if grows or path.endswith((".log", ".out", ".err")) or ".tfevents." in path:
            found.add(path)
    return found


def saved_step(run: ObservedRun) -> int:
    """The step of the newest complete checkpoint; −1 for none.

    It is the step that the training reports, or the last one before a file other than a log was complete.
    """
    if run.saves:
        return run.saves[-1][1]
    changes = [c for c in checkpoint_changes(run, 0) if c.time_s > _first_step_s(run)]
    if not changes:
        return -1
    before = [step for time_s, step in run.steps if time_s <= changes[-1].time_s]
    return max(before, default=-1)


def _first_step_s(run: ObservedRun) -> float:
    return run.steps[0][0] if run.steps else float("inf")


def saved_on_warning(rehearsal: Rehearsal) -> bool:
    """Whether a checkpoint was completed after the warning, and before the end.

    Where the training does not report it, the second run shows it: it begins where the first has ended.
    """
    run, second = rehearsal.first, rehearsal.second
    if run.saves:
        return run.saves[-1][0] >= run.signalled_s
    if not run.left or not checkpoint_changes(run, run.signalled_s):
        return False
    return not run.steps or not second.steps or run.steps[-1][1] + 1 - second.steps[0][1] <= MOST_LOST


def _begun_save(run: ObservedRun) -> tuple[FileChange, ...]:
    """The changes of a save that began after the warning: no step followed it.

    Where saves and steps went on as before the warning, the last save was not made for it.
    """
    later = [time_s for time_s, _ in run.steps if time_s > run.signalled_s + DELIVERED_S]
    if len(later) > MOST_STEPS and checkpoint_changes(run, _first_step_s(run), run.signalled_s):
        return ()
    last_s = max((time_s for time_s, _ in run.steps), default=0.0)
    return tuple(c for c in checkpoint_changes(run, run.signalled_s) if c.time_s + 1 >= last_s)


def _trainers_ended_s(run: ObservedRun) -> float:
    """Seconds from the warning until the first trainer was gone; infinite for never."""
    ends = [run.last_s(p.pid) for p in run.trainers()]
    return min(ends, default=float("inf")) - run.signalled_s


def _delivered(rehearsal: Rehearsal) -> tuple[str, ...]:
    """The signals for the trainers: of the wrapper, of the script's trap, or the warning."""
    run, shape = rehearsal.first, rehearsal.shape
    if rehearsal.delivers not in ("", FILE, NOTHING):
        return (rehearsal.delivers,)
    return shape.forwards if run.to_batch_shell and shape.traps and shape.forwards else (run.signal,)


def _handles(rehearsal: Rehearsal, process: ObservedProcess) -> bool:
    """Whether a trainer has a handler for what reaches it, or needs none for a stop file."""
    return rehearsal.delivers == FILE or not {*process.catches}.isdisjoint(_delivered(rehearsal))


# -- detectors -----------------------------------------------------------------------------------------------


def batch_shell_killed(rehearsal: Rehearsal) -> str:
    """Whether the warning has ended the batch shell, which had no trap."""
    run = rehearsal.first
    shell = next((p for p in run.at(run.signalled_s) if p.pid == run.shell), None)
    if not run.to_batch_shell or shell is None or run.signal in (*shell.catches, *shell.ignores):
        return ""
    if shell.is_python or run.ended_s - run.signalled_s > SOON_S + rehearsal.kill_wait_s:
        return ""
    return f"the batch shell had no trap for {run.signal}, which ended it, and with it the job"


def signal_reaches_no_process(rehearsal: Rehearsal) -> str:
    """Whether the warning went to steps, and the job had none."""
    run = rehearsal.first
    if (
        run.to_batch_shell
        or run.left
        or any(p.step.isdecimal() and int(p.step) < 2**31 for p in run.at(run.signalled_s))
    ):
        return ""
    return f"--signal={run.signal} without B: goes to the steps of srun, and the job had none"


def trap_in_foreground(rehearsal: Rehearsal) -> str:
    """Whether bash could not run its trap, waiting for a child in the foreground."""
    run = rehearsal.first
    if not run.to_batch_shell or not rehearsal.shape.traps or rehearsal.shape.in_background or run.left:
        return ""
    return (
        f"the batch shell has a trap for {run.signal}, but its child runs in the foreground: the trap waits for its end"
    )


def launcher_killed(rehearsal: Rehearsal) -> str:
    """Whether a signal that the launcher does not handle has ended it."""
    run, name = rehearsal.first, _delivered(rehearsal)[0]
    for launcher in run.launchers():
        gone_s = run.last_s(launcher.pid) - run.signalled_s
        if gone_s <= SOON_S and name not in (*launcher.catches, *launcher.ignores) and not saved_on_warning(rehearsal):
            return f"{name} has ended {launcher.launcher} (process {launcher.pid}) after {max(gone_s, 0):.1f} s"
    return ""


def launcher_ends_children(rehearsal: Rehearsal) -> str:
    """Whether a launcher that handles the signal has ended its workers at once."""
    run = rehearsal.first
    ended_s = _trainers_ended_s(run)
    for launcher in run.launchers():
        if ended_s <= SOON_S and not saved_on_warning(rehearsal):
            return (
                f"{launcher.launcher} has ended its workers {max(ended_s, 0):.1f} s after the warning, without a save"
            )
    return ""


def workers_killed_early(rehearsal: Rehearsal) -> str:
    """Whether torchrun has killed its workers in their save."""
    run = rehearsal.first
    if not run.launchers() or (saved_on_warning(rehearsal) and not FORCED.search(run.text)):
        return ""
    ended_s = _trainers_ended_s(run)
    if FORCED.search(run.text) or SHUTDOWN_S[0] <= ended_s <= SHUTDOWN_S[1]:
        return f"{run.launchers()[0].launcher} has killed its workers {ended_s:.0f} s after TERM, in their save"
    return ""


def torn_checkpoint(rehearsal: Rehearsal) -> str:
    """Whether the second run finds a part of a checkpoint."""
    run, second = rehearsal.first, rehearsal.second
    before_words = {found[0].lower() for found in LOAD_ERRORS.finditer(run.text)}
    found = next((one[0] for one in LOAD_ERRORS.finditer(second.text) if one[0].lower() not in before_words), "")
    if found and (not _resumed(rehearsal) or resumed_from_older(rehearsal)):
        return f"the second run cannot load the checkpoint: {found}"
    if run.left:
        return ""
    before = {change.path: change for change in run.changes(0, run.signalled_s)}
    last = {change.path: change for change in checkpoint_changes(run, run.signalled_s)}
    for path, change in last.items():
        known = before.get(path, change)
        if change.size < known.size and change.inode == known.inode:  # otherwise that file was renamed since
            return f"{path} had {change.size} bytes at the end, {known.size} before: it was overwritten in place"
    return ""


def save_longer_than_grace(rehearsal: Rehearsal) -> str:
    """Whether a save began and was not complete at the end."""
    run = rehearsal.first
    changes = _begun_save(run)
    if run.left or not changes or (run.saves and run.saves[-1][0] >= run.signalled_s):
        return ""
    warned = run.trainers() or [p for p in run.at(run.signalled_s) if p.program != "slurmstepd"]
    if not any(_handles(rehearsal, process) for process in warned):
        return ""  # a periodic save
    lasted_s = run.killed_s - changes[0].time_s
    begun_s = changes[0].time_s - run.signalled_s
    path = changes[-1].path
    return f"a save began {begun_s:.1f} s after the warning ({path}) and was not complete {lasted_s:.0f} s later"


def flag_read_too_late(rehearsal: Rehearsal) -> str:
    """Whether a handler was there and no save began in the lead."""
    run = rehearsal.first
    handling = [p for p in run.trainers() if _handles(rehearsal, p)]
    if run.left or not handling or _begun_save(run):
        return ""
    last_s = max((time_s for time_s, _ in run.steps), default=0.0)
    after = "no step was complete after it" if last_s < run.signalled_s else "steps went on"
    waited_s = run.killed_s - run.signalled_s
    had = "had its stop file" if rehearsal.delivers == FILE else "had a handler"
    return f"process {handling[0].pid} {had}, but did not save within {waited_s:.0f} s of the warning: {after}"


def no_handler(rehearsal: Rehearsal) -> str:
    """Whether a trainer had no handler for the signal."""
    run = rehearsal.first
    without = [p for p in run.trainers() if not _handles(rehearsal, p)]
    if not without or saved_on_warning(rehearsal):
        return ""
    names = " or ".join(_delivered(rehearsal))
    return f"process {without[0].pid} ({without[0].command[:60]}) had no handler for {names}"


def state_keyed_by_job(rehearsal: Rehearsal) -> str:
    """Whether the state has the job's number in its name, and is not found again."""
    run = rehearsal.first
    number = re.compile(rf"(?<!\d){run.job}(?!\d)")
    paths = [change.path for change in checkpoint_changes(run, 0) if number.search(change.path)]
    if not paths or _resumed(rehearsal):
        return ""
    return f"{paths[-1]} has the number of job {run.job} in its name: job {rehearsal.second.job} searched for its own"


def not_resumed(rehearsal: Rehearsal) -> str:
    """Whether the second run began where the first did."""
    first, second = rehearsal.first, rehearsal.second
    if not first.steps or not second.steps or _resumed(rehearsal):
        return ""
    return f"the second run began at step {second.steps[0][1]}, the first at {first.steps[0][1]}"


def resumed_from_older(rehearsal: Rehearsal) -> str:
    """Whether the second run loaded an older checkpoint than the newest."""
    first, second = rehearsal.first, rehearsal.second
    step = saved_step(first)
    if not second.steps or step < 0:
        return ""
    span_s = first.steps[-1][0] - first.steps[0][0] if len(first.steps) > 1 else 0.0
    a_second = (first.steps[-1][1] - first.steps[0][1]) / span_s if span_s > 0 else 0.0
    if second.steps[0][1] >= step - max(2.0, 1.5 * a_second):
        return ""
    return f"the newest checkpoint is of step {step}, the second run began at {second.steps[0][1]}"


def _resumed(rehearsal: Rehearsal) -> bool:
    """Whether the second run began at a higher step than the first."""
    first, second = rehearsal.first, rehearsal.second
    return bool(first.steps and second.steps) and second.steps[0][1] > first.steps[0][1] + 1


def log_truncated(rehearsal: Rehearsal) -> str:
    """Whether the second job has truncated the output of the first."""
    return "the second job has truncated the output of the first" if rehearsal.log_lost else ""


def two_chains_in_one_directory(rehearsal: Rehearsal) -> str:
    """Whether files changed while no run was there, other than those that people edit."""
    changed = {c.path for c in checkpoint_changes(rehearsal.first, 0) if not c.path.endswith(_EDITED)}
    found = [change for change in rehearsal.foreign if change.path in changed]
    if not found:
        return ""
    return f"{found[0].path} was written while no job of the rehearsal ran: another job uses this directory"


_EDITED = (".py", ".sh", ".md", ".rst", ".txt", ".tex", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".ipynb", ".swp", "~")
"""Ends of the names of files that an editor writes."""

_IN_ORDER: tuple[Detector, ...] = (
    batch_shell_killed, signal_reaches_no_process, trap_in_foreground, launcher_killed, workers_killed_early,
    launcher_ends_children, torn_checkpoint, save_longer_than_grace, flag_read_too_late, no_handler,
    state_keyed_by_job, not_resumed, resumed_from_older,
)  # fmt: skip
_APART: tuple[Detector, ...] = (log_truncated, two_chains_in_one_directory)

_WRAPPER = "submit with --framework, which adds a wrapper that signals the trainers"

REMEDIES = {
    "batch_shell_killed": ("batch-shell-killed", _WRAPPER),
    "signal_reaches_no_process": (
        "signal-reaches-no-process", f"write --signal=B:… and a trap, or start with srun; or {_WRAPPER}"
    ),
    "trap_in_foreground": (
        "trap-in-foreground", f"start the program with & and wait for it, twice; or remove the trap and {_WRAPPER}"
    ),
    "launcher_killed": ("launcher-killed-by-signal", f"set TORCHELASTIC_SIGNALS_TO_HANDLE; or {_WRAPPER}"),
    "workers_killed_early": (
        "workers-killed-after-30-s", f"set TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or signal the workers only: {_WRAPPER}"
    ),
    "launcher_ends_children": ("launcher-ends-children", f"never signal the launcher: {_WRAPPER}"),
    "torn_checkpoint": ("torn-checkpoint", "write the checkpoint under another name, then rename it"),
    "save_longer_than_grace": ("save-longer-than-grace", "give a longer --grace"),
    "flag_read_too_late": (
        "signal-read-too-late", "check the flag in long phases too (evaluation, warm-up), or give a longer --grace"
    ),
    "no_handler": ("no-handler", "import mirage.hooks first in the training script, and check should_stop()"),
    "state_keyed_by_job": ("state-keyed-by-job", "use a path without the job's number, such as $MIRAGE_CHAIN"),
    "not_resumed": ("not-resumed", "load the newest checkpoint at the start"),
    "resumed_from_older": ("resumed-from-older-checkpoint", "sort checkpoints by their number or time, not by name"),
    "log_truncated": ("log-truncated", "submit with --open-mode=append"),
    "two_chains_in_one_directory": ("two-chains-in-one-directory", "give each chain a directory of its own"),
}  # fmt: skip
"""Detector → name of the trap, and what to do."""
