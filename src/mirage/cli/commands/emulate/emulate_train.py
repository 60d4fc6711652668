"""``mirage emulate train``: an emulated training."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_output
from mirage.cli.values import COUNT, Count, Number
from mirage.errors import ConfigurationError, OutOfDeviceMemory, quantity, shown

if TYPE_CHECKING:
    from mirage.emulate.device_ledger import HeldDevices
    from mirage.emulate.emulated_training import EmulatedTraining, TrainingPlan
    from mirage.emulate.step_time import TrainingStep

LEFT = 75
"""Exit status after a warning: the training is not finished, start it again (EX_TEMPFAIL of sysexits.h)."""

LARGE_COUNT = Count(most=10**12)


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage emulate train --profiles profiles --model bert --gpu-type a100 --gpus 8 --steps 200",
        "mirage emulate train --model cifar10 --gpu-type t4 --gpus 16 --epochs 2 --speed 60 --json",
        "mirage emulate train --model bert --gpu-type a100 --steps 2000 --resume bert.ckpt --checkpoint-s 300",
    ),
)
@click.option(
    "--profiles",
    metavar="DIR",
    help="Measured step times: a folder in the form of Pollux and Sia.  [default: sia-pollux/profiles in the folder "
    "that MIRAGE_DATA names]",
)
@click.option("--model", required=True, metavar="NAME", help="A model of the profiles, such as bert.")
@click.option("--gpu-type", required=True, metavar="NAME", help="A GPU type on which it was measured, such as a100.")
@click.option("--gpus", type=COUNT, default=1, show_default=True, metavar="N", help="GPUs, with one worker each.")
@click.option("-N", "--nodes", type=COUNT, metavar="N", help="Nodes that hold the GPUs.  [default: as few as possible]")
@click.option("--steps", type=LARGE_COUNT, metavar="N", help="Train for N steps, an update of the model each.")
@click.option("--epochs", type=LARGE_COUNT, metavar="N", help="Train for N epochs.  [default: those of the profile]")
@click.option(
    "--batch-size", type=LARGE_COUNT, metavar="N", help="Samples of a step, over all GPUs.  [default: the model's]"
)
@click.option(
    "--local-batch",
    type=COUNT,
    metavar="N",
    help="Samples that a GPU processes at once; if they do not fit, the job is out of memory.  [default: what fits]",
)
@click.option(
    "--slowest",
    type=Number(min=1),
    default=1.0,
    metavar="X",
    help="One worker computes X times as long, and the others wait for it.  [default: 1]",
)
@click.option(
    "--extrapolate", is_flag=True, help="Accept times outside of the measurements: those of the nearest measurement."
)
@click.option(
    "--restart-s",
    type=Number(min=0),
    metavar="SECONDS",
    help="Time to load, before the first step.  [default: the restart cost of the profile]",
)
@click.option(
    "--resume", metavar="FILE", help="Start from the checkpoint in FILE if there is one, and write checkpoints to it."
)
@click.option("--checkpoint-s", type=Number(min=0, min_open=True), metavar="SECONDS",
    help="Write a checkpoint every SECONDS of work.  [default: at the end, and when warned]")  # fmt: skip
@click.option(
    "--save-s",
    type=Number(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Time to write a checkpoint; no step is done in it.  [default: 0]",
)
@click.option(
    "--devices",
    metavar="DIR",
    envvar="MIRAGE_DEVICES",
    help="Hold memory of emulated devices, and share them with other jobs: a folder with a file for each node.  "
    "[default: the folder that MIRAGE_DEVICES names; else the job is alone on its devices]",
)
@click.option(
    "--progress",
    metavar="FILE",
    help="Replace FILE with the progress (JSON) every 5 seconds and at the end.",
)
@click.option(
    "--speed",
    type=Number(min=0, min_open=True),
    default=1.0,
    metavar="N",
    help="Emulated seconds per second. Above 10, the process wakes only for the next event.  [default: 1]",
)
@json_output
def train(
    profiles: str | None,
    resume: str | None,
    progress: str | None,
    devices: str | None,
    speed: float,
    as_json: bool,
    **wanted: Any,
) -> int:
    """Run an emulated training: steps, epochs, checkpoints and end as those of a real job.

    The step time is the measured one of the model on these GPUs. Signals USR1, USR2 and TERM are warnings: the job
    saves and exits with status 75. Other exit statuses: 0 finished, 1 failed (out of memory, for example), 2 wrong
    usage.
    """
    from mirage.emulate.deadline_clock import DeadlineClock, WarningSignals
    from mirage.emulate.emulated_training import EmulatedTraining

    signals = WarningSignals()
    clock = DeadlineClock(speed, wait=signals.wait)
    with signals.on(clock):
        for written in filter(None, (resume, progress)):
            check_output(written)
        if progress is not None and Path(progress).resolve().is_fifo():  # /dev/stdout resolves to no file
            raise ConfigurationError(f"{progress} is a pipe, which waits for a reader; name a file, or /dev/stdout")
        try:
            step = _step(_folder(profiles), wanted)
        except OutOfDeviceMemory as error:
            click.echo(str(error), err=True)
            return 1
        plan = _plan(step, resume, progress, wanted)
        click.echo(f"mirage: {_announcement(plan)}", err=True)
        show = _show if sys.stderr.isatty() else _hide
        try:
            held = None if devices is None else _hold(Path(devices), step)
        except OutOfDeviceMemory as error:
            click.echo(str(error), err=True)
            return 1
        clock.start = clock.now()
        training = EmulatedTraining(plan, clock, signals, report=show)
        if held is None:
            training.run()
        else:
            training.jobs_sharing, training.utilise = held.sharing, held.set_utilisation
            try:
                training.run()
            finally:
                held.release()
        elapsed_s = clock.now_s()
    found = _result(training, elapsed_s)
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(
            f"{training.state} at step {training.step:,} of {plan.steps:,} after {elapsed_s:,.3f} s; "
            f"due after {training.due_s:,.3f} s"
        )
    return 0 if training.state == "done" else LEFT


def _folder(profiles: str | None) -> Path:
    data = os.environ.get("MIRAGE_DATA")
    if profiles is None and data is None:
        raise ConfigurationError(
            "no measured step times: give --profiles DIR, a folder in the form of Pollux and Sia, or set MIRAGE_DATA"
        )
    folder = Path(profiles) if profiles is not None else Path(str(data), "sia-pollux", "profiles")
    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: there is no such folder; name the folder of the profiles")
    return folder


def _step(folder: Path, wanted: dict[str, Any]) -> TrainingStep:
    from mirage.emulate.step_time import WorkerShape, training_step

    shape = WorkerShape(
        gpus=wanted["gpus"],
        nodes=wanted["nodes"] or 0,
        batch=wanted["batch_size"] or 0,
        local_batch=wanted["local_batch"] or 0,
        slowest=wanted["slowest"],
    )
    step = training_step(folder, wanted["model"], wanted["gpu_type"], shape, extrapolate=wanted["extrapolate"])
    if wanted["batch_size"] not in (None, step.batch):
        click.echo(
            f"mirage: warning: {quantity(step.gpus, 'GPU')} with local batches of {step.local_batch} make steps of "
            f"{step.batch:,} samples, not {wanted['batch_size']:,}; give a --batch-size that they share evenly",
            err=True,
        )
    return step if wanted["restart_s"] is None else replace(step, load_s=wanted["restart_s"])


def _hold(folder: Path, step: TrainingStep) -> HeldDevices:
    """Takes memory on the devices that Slurm gave to this job; without Slurm, the first."""
    from mirage.emulate.device_ledger import HeldDevices
    from mirage.slurm_words.hostlist import expand_hosts

    if not folder.is_dir():
        raise ConfigurationError(f"{folder}: there is no such folder; make it, or name another for --devices")
    listed = os.environ.get("SLURM_JOB_NODELIST")
    try:
        nodes = expand_hosts(listed) if listed else [f"local-{k}" for k in range(1, step.nodes + 1)]
    except ValueError as error:
        raise ConfigurationError(f"SLURM_JOB_NODELIST: {error}; unset it where no Slurm job runs") from error
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(step.gpus))))
    words = [word.strip() for word in visible.split(",")]
    if len(set(words)) < len(words) or not all(map(str.isdecimal, words)):
        raise ConfigurationError(
            f"CUDA_VISIBLE_DEVICES is {shown(visible)}; give different numbers of devices, such as 0,1, or unset it"
        )
    numbers = [int(word) for word in words]
    return HeldDevices.take(folder, step.card, nodes[: step.gpus], step.gpus, numbers, step.memory_mib)


def _plan(step: TrainingStep, resume: str | None, progress: str | None, wanted: dict[str, Any]) -> TrainingPlan:
    from mirage.emulate.emulated_training import TrainingPlan
    from mirage.emulate.training_files import read_checkpoint

    if wanted["steps"] is not None and wanted["epochs"] is not None:
        raise click.UsageError("--steps and --epochs exclude each other; give one of them")
    if resume is None and (wanted["checkpoint_s"] is not None or wanted["save_s"]):
        raise click.UsageError("--checkpoint-s and --save-s need --resume FILE, the file to write to")
    if resume is not None and progress is not None and Path(resume).resolve() == Path(progress).resolve():
        raise click.UsageError("--resume and --progress replace their files; give each a file of its own")
    resumed = None if resume is None else read_checkpoint(Path(resume), step.model)
    if resumed is not None and resumed.batch != step.batch:  # as many samples, in steps of another size
        resumed = replace(resumed, step=resumed.step * resumed.batch // step.batch, batch=step.batch)
    return TrainingPlan(
        step=step,
        steps=wanted["steps"] or (wanted["epochs"] or step.epochs) * step.steps_per_epoch,
        steps_per_epoch=step.steps_per_epoch,
        load_s=step.load_s,
        save_s=wanted["save_s"],
        checkpoint_s=math.inf if wanted["checkpoint_s"] is None else wanted["checkpoint_s"],
        checkpoint=None if resume is None else Path(resume),
        progress=None if progress is None else Path(progress),
        resumed=resumed,
    )


def _announcement(plan: TrainingPlan) -> str:
    step = plan.step
    start = f"from step {plan.first_step:,} " if plan.resumed else ""
    end = " (no step is left)" if plan.first_step >= plan.steps else ""
    return (
        f"{step.model} on {step.gpus} x {step.gpu_type} ({step.nodes} {'node' if step.nodes == 1 else 'nodes'}): "
        f"{step.step_s:.4g} s a step ({step.origin}), {plan.load_s:g} s to load, {start}to step {plan.steps:,}{end}, "
        f"{plan.expected_s():,.1f} s expected"
    )


def _result(training: EmulatedTraining, elapsed_s: float) -> dict[str, Any]:
    plan, step = training.plan, training.plan.step
    return {
        "expected_s": round(plan.expected_s(), 6),
        "elapsed_s": round(elapsed_s, 6),
        "steps": training.step - plan.first_step,
        "state": training.state,
        "warning": training.signals.received,
        "due_s": round(training.due_s, 6),
        "first_step": plan.first_step,
        "step": training.step,
        "saved_step": training.saved_step,
        "saves": training.saves,
        "latest_step_s": round(training.late_s, 6),
        "model": step.model,
        "gpu_type": step.gpu_type,
        "gpus": step.gpus,
        "nodes": step.nodes,
        "batch": step.batch,
        "local_batch": step.local_batch,
        "passes": step.passes,
        "step_s": step.step_s,
        "compute_s": step.compute_s,
        "exchange_s": step.exchange_s,
        "slowdown": step.slowdown,
        "origin": step.origin,
        "memory_mib": step.memory_mib,
        "load_s": plan.load_s,
        "steps_per_epoch": plan.steps_per_epoch,
        "speed": training.clock.speed,
    }


def _show(progress: dict[str, Any]) -> None:
    text = f"{progress['state']}: step {progress['step']:,} of {progress['steps']:,}"
    click.echo(f"\r\033[K{text}", err=True, nl=progress["state"] in ("done", "left"))


def _hide(_: dict[str, Any]) -> None:
    pass
