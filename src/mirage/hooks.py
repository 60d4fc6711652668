"""Hooks for a training script: leave in time, know the time left, report progress.

::

    from mirage.hooks import progress, should_stop

    for step in range(first_step, steps):
        train_one_step()
        progress(step + 1)
        if should_stop():
            save(step + 1)
            sys.exit(0)

This file needs only the standard library, so it can be copied next to a training script. Import it before everything
that takes long: from then on a signal sets a flag and nothing else, also in the first compilation, a warm-up, an
evaluation or a save. The callbacks for Lightning and Hugging Face import their framework when they are created.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs several milliseconds
    from types import FrameType
    from typing import Any

SIGNALS = ("USR1", "USR2", "TERM")
"""Signals that request a stop."""

STOP_FILE = "MIRAGE_STOP_FILE"
"""Variable with the path of a file; when it exists, a stop is requested."""

PROGRESS_FILE = "MIRAGE_PROGRESS_FILE"
"""Variable with the path of a file to which steps, stops and checkpoints are appended, one JSON value a line."""

LEAD = "MIRAGE_LEAD_S"
"""Variable that you may set: seconds before the end of the job at which a stop is requested. Without it, none is."""

LEFT_WITHOUT_TRAINING = 75
"""Exit status of a training that may not take over: the work is not finished (EX_TEMPFAIL of sysexits.h)."""

END_TIMES = ("SLURM_JOB_END_TIME", "MIRAGE_JOB_END_TIME")
"""Variables with the end of the job in seconds since 1970, the first that is set."""

FILE_EVERY_S = 1.0
"""Seconds between two checks of the stop file, and between two written steps."""


class _State:
    """What this process knows of its stop and its steps."""

    received = ""  # the first signal
    received_s = 0.0
    reported = False
    complained: tuple[str, ...] = ()  # of these variables
    checked_s = 0.0  # last check of the stop file
    written_s = 0.0  # last written step
    stepped_s = 0.0
    longest_step_s = 0.0
    takeovers = 0


def should_stop(lead_s: float | None = None) -> bool:
    """Whether to save a checkpoint now and leave.

    It is True after SIGUSR1, SIGUSR2 or SIGTERM, once the file of ``MIRAGE_STOP_FILE`` exists, and from ``lead_s``
    before the end of the job. It stays True. It costs a microsecond, and one ``stat`` a second.

    Ranks may get the signal at different steps. Where they exchange data (DDP, FSDP), let them agree by ``any_rank``.

    Args:
        lead_s: Seconds before the job's end; by default ``MIRAGE_LEAD_S``, without which the end requests no stop.
    """
    if not _State.received:
        now_s = _now_s()
        if now_s - _State.checked_s >= FILE_EVERY_S:
            _State.checked_s = now_s
            if (path := _stop_file()) and os.path.exists(path):
                _State.received, _State.received_s = "file", now_s
        lead = _seconds(LEAD) if lead_s is None else lead_s
        if not _State.received and lead is not None and remaining_s() <= lead:
            _State.received, _State.received_s = "time", now_s
    if _State.received and not _State.reported:
        _State.reported = True
        _write(f'"stop": "{_State.received}", "received_s": {_State.received_s:.3f}')
    return bool(_State.received)


def any_rank(here: bool) -> bool:
    """Whether a condition holds on at least one rank, by one all-reduce of PyTorch.

    Without ``torch.distributed`` it is the condition itself. All ranks must call it at the same step.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return here
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor([int(here)], device=device)
    torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


def remaining_s() -> float:
    """Seconds until the time limit of this job; infinite where it is unknown.

    The end is in ``SLURM_JOB_END_TIME`` (Slurm 23.02 and later) or in ``MIRAGE_JOB_END_TIME``, which the wrapper of a
    preset sets. No command of Slurm runs.
    """
    for name in END_TIMES[:1] if _is_inherited() else END_TIMES:
        if (end_s := _seconds(name)) is not None:
            return end_s - _now_s()
    return float("inf")


def progress(step: int) -> None:
    """Report that a step is complete.

    The first rank appends it to the file of ``MIRAGE_PROGRESS_FILE``, at most once a second. Every process measures its
    longest step: see ``longest_step_s``.
    """
    now_s = time.monotonic()
    if _State.stepped_s:
        _State.longest_step_s = max(_State.longest_step_s, now_s - _State.stepped_s)
    _State.stepped_s = now_s
    if now_s - _State.written_s >= FILE_EVERY_S or _State.received:
        _State.written_s = now_s
        _write(f'"step": {int(step)}, "longest_step_s": {_State.longest_step_s:.3f}')


def saved(step: int) -> None:
    """Report that the checkpoint of a step is complete.

    The time of the next step does not include the save.
    """
    _State.stepped_s = 0.0
    _write(f'"saved": {int(step)}')


def take_over(*options: str) -> str:
    """Wait until the previous job of the chain has left; returns the newest checkpoint.

    The checkpoint is as ``mirage link takeover`` prints it, empty for none.

    Call it on every rank when all but the checkpoint is loaded, then load the checkpoint and train. The first rank runs
    ``mirage link takeover`` and writes its result to a file, for which the other ranks wait: no collective operation of
    theirs can time out. Outside of a chain there is no other job to wait for, and every rank runs the command.

    Args:
        options: Options of ``mirage link takeover``, such as ``--progress-file`` and ``ckpt/step_*``.

    Raises:
        SystemExit: This job must not train, as another one may still do: with status 75, on every rank.
    """
    _State.takeovers += 1
    job, restart = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_RESTART_COUNT", "0")
    folder = os.environ.get("SLURM_SUBMIT_DIR", ".")
    path = os.path.join(folder, f".mirage-takeover-{job}-{restart}-{_State.takeovers}")
    if not os.environ.get("MIRAGE_CHAIN"):
        named = options or os.environ.get(PROGRESS_FILE)
        status, text = _link_takeover("--no-wait", *options) if named else (0, "")
    elif _rank() == "0":
        status, text = _link_takeover(*options)
        if os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")) != "1":
            with open(path + ".part", "w", encoding="utf-8") as file:
                file.write(f"{status}\n{text}")
            os.replace(path + ".part", path)
            _remove_old(folder)
    else:
        while not os.path.exists(path):
            if _State.received:
                sys.exit(LEFT_WITHOUT_TRAINING)
            time.sleep(FILE_EVERY_S)
        with open(path, encoding="utf-8") as file:
            word, _, text = file.read().partition("\n")
        status = int(word)
    if status:
        sys.exit(LEFT_WITHOUT_TRAINING)
    return text


def longest_step_s() -> float:
    """The longest time between two calls of ``progress`` in this process, seconds."""
    return _State.longest_step_s


def lightning_callback(path: str | None = None) -> Any:
    """A callback for Lightning's ``Trainer``: on a stop it saves and ends the training.

    It checks after each batch, also in a validation. Resume with ``trainer.fit(model, ckpt_path=PATH)`` where the file
    exists.

    Args:
        path: The checkpoint; by default ``mirage-stop.ckpt`` in the trainer's root folder.

    Raises:
        ModuleNotFoundError: Neither ``lightning`` nor ``pytorch_lightning`` is installed.
    """
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

    class MirageCallback(Callback):  # type: ignore[misc]
        """Saves on a stop."""

        done = False

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            """Reports the step, and saves if a stop is requested."""
            progress(trainer.global_step)
            self.save_on_stop(trainer)

        def on_validation_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            """Saves if a stop is requested: a validation may be longer than the lead."""
            if not trainer.sanity_checking:
                self.save_on_stop(trainer)

        def save_on_stop(self, trainer: Any) -> None:
            """Saves once, under a name of its own first, and ends the training."""
            if self.done or not trainer.strategy.reduce_boolean_decision(should_stop(), all=False):
                return
            self.done = trainer.should_stop = True
            target = path or os.path.join(trainer.default_root_dir, "mirage-stop.ckpt")
            trainer.save_checkpoint(target + ".part")
            if trainer.is_global_zero:
                os.replace(target + ".part", target)
                saved(trainer.global_step)

    return MirageCallback()


def transformers_callback() -> Any:
    """A callback for Hugging Face's ``Trainer``: on a stop it saves and leaves.

    It acts after the present step. Resume with ``trainer.train(resume_from_checkpoint=True)``. A stop in an evaluation
    takes effect after it: the trainer saves at steps only.

    Raises:
        ModuleNotFoundError: ``transformers`` is not installed.
    """
    from transformers import TrainerCallback

    class MirageTrainerCallback(TrainerCallback):  # type: ignore[misc]
        """Saves on a stop."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            """Reports the step, and requests a save and the end of the training."""
            progress(state.global_step)
            if any_rank(should_stop()):
                control.should_save = control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Reports the checkpoint."""
            saved(state.global_step)

    return MirageTrainerCallback()


def _link_takeover(*options: str) -> tuple[int, str]:
    """Exit status and output of ``mirage link takeover``."""
    import subprocess

    try:
        words = ["mirage", "link", "takeover", *options]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            while child.poll() is None:
                if _State.received:  # this job has to leave, too
                    child.terminate()
                time.sleep(0.1)
            text = (child.stdout.read() if child.stdout is not None else "").rstrip("\n")
        return child.returncode, text
    except OSError as error:
        print(f"mirage.hooks: cannot run mirage: {error.strerror}; add it to PATH", file=sys.stderr)
        return 127, ""


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


def _seconds(name: str) -> float | None:
    """The seconds in a variable; text that is none is reported once."""
    if not (text := os.environ.get(name)):
        return None
    try:
        if (seconds := float(text)) >= 0:
            return seconds
    except ValueError:
        pass
    if name not in _State.complained:
        _State.complained += (name,)
        print(f"mirage.hooks: {name}={text} is ignored: it is no number of seconds", file=sys.stderr)
    return None


def _is_inherited() -> bool:
    """Whether the wrapper's variables are those of another job, which has submitted this one."""
    job, mark = os.environ.get("SLURM_JOB_ID"), os.environ.get("MIRAGE_WRAPPED")
    return bool(job and mark and not mark.startswith(f"{job}-"))


def _stop_file() -> str:
    """The path of the stop file; empty for none, and for that of another job's wrapper."""
    path = os.environ.get(STOP_FILE, "")
    return "" if _is_inherited() and os.path.basename(path).startswith(".mirage-stop-") else path


def _rank() -> str:
    return os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "0"


def _remove_old(folder: str) -> None:
    """Remove the results of take-overs of earlier jobs."""
    try:
        for entry in os.scandir(folder):
            if entry.name.startswith(".mirage-takeover-") and entry.stat().st_mtime < _now_s() - 86_400:
                os.unlink(entry.path)
    except OSError as error:  # another job has removed it
        print(f"mirage.hooks: {error}", file=sys.stderr)


def _write(entry: str) -> None:
    """Append an entry to the progress file, from the first rank.

    A full disk does not end the training.
    """
    path = os.environ.get(PROGRESS_FILE)
    if not path or _rank() != "0":
        return
    line = f'{{"time_s": {_now_s():.3f}, "pid": {os.getpid()}, {entry}}}\n'
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        print(f"mirage.hooks: cannot write {path}: {error.strerror}", file=sys.stderr)


def _install() -> None:
    """Handle the signals from now on.

    A handler that was there before is called after the flag is set.
    """
    for word in SIGNALS:
        number = getattr(signal, f"SIG{word}")
        previous = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, word: str = word, previous: Any = previous) -> None:
            if not _State.received:
                _State.received, _State.received_s = word, _now_s()
            if callable(previous):
                previous(number, frame)

        try:
            signal.signal(number, handle)
        except ValueError:
            print("mirage.hooks cannot handle signals: import it in the main thread, first of all", file=sys.stderr)
            return
    os.register_at_fork(after_in_child=_in_child)


def _in_child() -> None:
    """Let a forked process, such as a worker of a DataLoader, ignore a stop.

    TERM ends it, as its parent may expect.
    """
    for word in SIGNALS:
        signal.signal(getattr(signal, f"SIG{word}"), signal.SIG_DFL if word == "TERM" else signal.SIG_IGN)


_install()
