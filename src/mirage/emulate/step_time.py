"""The time of one training step of a model on some GPUs, from measured profiles.

Profiles are read by ``mirage.schedule.speeds``, so an emulated job is as fast as the same job in the simulator. The
workers of a job run in lockstep: a step is the computation of the slowest worker and the exchange of gradients of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirage.emulate.out_of_memory import out_of_memory_text
from mirage.errors import ConfigurationError, OutOfDeviceMemory, UnknownName, quantity
from mirage.schedule.speeds.profile_files import (
    ModelFacts,
    StepTimes,
    gpu_types_of,
    models_in,
    read_facts,
    read_noise,
    read_placements,
    read_scalability,
)
from mirage.schedule.speeds.profiles import Origin, StepRow, gpus_per_server, step_row


@dataclass(frozen=True, slots=True)
class GpuCard:
    """A GPU model.

    Attributes:
        profile: Its name in the profiles of Pollux and Sia.
        title: Its product name, as the driver prints it.
        memory_mib: Its memory.
    """

    profile: str
    title: str
    memory_mib: int


CARDS: Mapping[str, GpuCard] = {
    "t4": GpuCard("aws", "Tesla T4", 15_360),
    "rtx2080ti": GpuCard("rtx", "NVIDIA GeForce RTX 2080 Ti", 11_264),
    "rtx6000": GpuCard("quad", "Quadro RTX 6000", 24_576),
    "v100": GpuCard("azure", "Tesla V100-SXM2-32GB", 32_768),
    "a100": GpuCard("dgx-ext", "NVIDIA A100-SXM4-40GB", 40_960),
}
"""Cards by their usual names. Sia (SOSP'23) measured on T4, RTX 2080 Ti, Quadro RTX 6000 and A100; the profile
``azure`` is not described there, and its largest batches fit a card of 32 GB."""

UNKNOWN_MEMORY_MIB = 16_384
"""Memory of a card that has a profile and no entry in ``CARDS``."""

FIXED_MIB = 8_192
"""Memory of a worker without any sample; with it, the largest batches of T4, RTX 6000, V100 and A100 fill the cards."""


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """The workers of a job and what each of them processes.

    Attributes:
        gpus: Number of workers, one GPU each.
        nodes: Number of nodes that hold them.
        batch: Samples of all workers between two updates; 0 for the model's first batch.
        local_batch: Samples that a worker processes at once; 0 for as many as batch and card allow.
        slowest: Computation time of the slowest worker over that of the others, at least 1.
    """

    gpus: int
    nodes: int = 0
    batch: int = 0
    local_batch: int = 0
    slowest: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One update of a model: its time, its origin, and what it processes.

    Attributes:
        model: The model.
        gpu_type: The GPU type, as requested.
        card: Its card.
        gpus: Number of workers.
        nodes: Number of nodes.
        batch: Samples of an update.
        local_batch: Samples that a worker processes at once.
        passes: Passes of a worker before an update; their gradients accumulate.
        compute_s: Seconds of computation in an update, of the slowest worker.
        exchange_s: Seconds of the exchange of gradients in an update.
        slowdown: Real step time over measured step time; both times above include it.
        origin: Where the times come from.
        memory_mib: Memory of a worker.
        load_s: Seconds from the start of a job to its first step.
        epoch_samples: Samples of an epoch.
        epochs: Epochs of a complete training.
    """

    model: str
    gpu_type: str
    card: GpuCard
    gpus: int
    nodes: int
    batch: int
    local_batch: int
    passes: int
    compute_s: float
    exchange_s: float
    slowdown: float
    origin: Origin
    memory_mib: int
    load_s: float
    epoch_samples: int
    epochs: int

    @property
    def step_s(self) -> float:
        """Seconds of an update."""
        return self.compute_s + self.exchange_s

    @property
    def steps_per_epoch(self) -> int:
        """Updates of an epoch, the last one possibly with fewer samples."""
        return math.ceil(self.epoch_samples / self.batch)


def training_step(
    folder: Path, model: str, gpu_type: str, shape: WorkerShape, *, extrapolate: bool = False
) -> TrainingStep:
    """The step of a model on GPUs of a type.

    Args:
        folder: Profiles in the form of Pollux and Sia.
        model: A model of this folder.
        gpu_type: A name of ``CARDS``, or a type of the profiles.
        shape: The workers.
        extrapolate: Whether times outside of the measurements are accepted.

    Raises:
        UnknownName: The model, or the GPU type, has no measurements; the message lists those that have.
        ConfigurationError: The folder has no profiles, the workers do not fit, the batch is larger than an epoch, or
            they need a time outside of the measurements.
        OutOfDeviceMemory: The local batch does not fit on a card.
    """
    if model not in models_in(folder) and model and (folder / model).is_dir():
        raise ConfigurationError(
            f"{folder / model} has no validation-BATCH.csv, so it is no complete profile; copy all files of the model"
        )
    if not models_in(folder):
        raise ConfigurationError(
            f"{folder}: no profiles (MODEL/validation-BATCH.csv) in it; give a folder that has some"
        )
    if model not in models_in(folder):
        raise UnknownName("model", model, models_in(folder))
    types = gpu_types_of(folder / model)
    card = CARDS.get(gpu_type, GpuCard(gpu_type, f"Emulated {gpu_type}", UNKNOWN_MEMORY_MIB))
    if card.profile not in types:
        names = [name for name, known in CARDS.items() if known.profile in types]
        raise UnknownName(f"GPU type of {model}", gpu_type, [*names, *types])
    card = next((known for known in CARDS.values() if known.profile == card.profile), card)
    facts = read_facts(folder).get(model, ModelFacts())
    noise = read_noise(folder / model, facts.epochs)
    placements, scalability = (
        read_placements(folder / model, card.profile),
        read_scalability(folder / model, card.profile),
    )
    nodes = shape.nodes or math.ceil(shape.gpus / gpus_per_server(placements))
    _check_workers(shape.gpus, nodes, gpus_per_server(placements), gpu_type)
    row, origin = step_row(placements, scalability, nodes, shape.gpus)
    first, largest = int(noise.batch[0]), int(noise.batch[-1])
    epoch_samples = round(float(noise.progress[0, 0]) * first)
    if shape.batch > epoch_samples:
        raise ConfigurationError(
            f"a batch of {shape.batch:,} samples is larger than an epoch of {model}, {epoch_samples:,} samples; give a "
            "smaller batch"
        )
    most = min(facts.max_local.get(card.profile, row.max_local), row.max_local)
    batch, local, passes = _batches(shape, (first, largest), int(placements.local_batch.min()), most)
    memory_mib = _memory_mib(card, local, most)
    if memory_mib > card.memory_mib:
        raise OutOfDeviceMemory(out_of_memory_text(memory_mib, 0, card.memory_mib, {}))
    step_s, sync_s, at = _times(row, local)
    origin = max(origin, at, key=list(Origin).index)
    if origin is Origin.INTERPOLATED and _in_scalability(scalability, nodes, shape.gpus, local):
        origin = Origin.MEASURED
    if origin is Origin.EXTRAPOLATED and not extrapolate:
        raise ConfigurationError(
            f"{model} on {quantity(shape.gpus, 'GPU')} of type {gpu_type} on {quantity(nodes, 'node')} with a local "
            f"batch of {local} is outside of the measurements (up to {quantity(int(scalability.gpus.max()), 'GPU')} on "
            f"{quantity(int(scalability.servers.max()), 'node')}, local batches {int(row.local_batch[0])} to "
            f"{int(row.local_batch[-1])}); request less, or add --extrapolate to use the nearest measured time"
        )
    return TrainingStep(
        model=model,
        gpu_type=gpu_type,
        card=card,
        gpus=shape.gpus,
        nodes=nodes,
        batch=batch,
        local_batch=local,
        passes=passes,
        compute_s=(step_s - sync_s) * passes * shape.slowest * facts.slowdown,
        exchange_s=sync_s * facts.slowdown,
        slowdown=facts.slowdown,
        origin=origin,
        memory_mib=memory_mib,
        load_s=facts.restart_s,
        epoch_samples=epoch_samples,
        epochs=noise.progress.shape[1],
    )


def _check_workers(gpus: int, nodes: int, per_node: int, gpu_type: str) -> None:
    if nodes > gpus:
        raise ConfigurationError(f"{gpus} GPUs cannot be on {nodes} nodes; request at most {gpus} nodes")
    if gpus > nodes * per_node:
        raise ConfigurationError(
            f"{nodes} nodes with {per_node} GPUs of type {gpu_type} have no {gpus} GPUs; request "
            f"{math.ceil(gpus / per_node)} nodes or more"
        )


def _batches(shape: WorkerShape, measured: tuple[int, int], least: int, most: int) -> tuple[int, int, int]:
    """Batch of an update, local batch, and passes, as in ``mirage.schedule.speeds.speed_law``."""
    if shape.local_batch:
        passes = max(math.ceil(shape.batch / (shape.gpus * shape.local_batch)), 1)
        return shape.gpus * shape.local_batch * passes, shape.local_batch, passes
    first, largest = measured
    batch = shape.batch or max(first, least * shape.gpus)
    share = math.ceil(batch / shape.gpus)
    passes = max(math.ceil(share / most), 2 if shape.gpus == 1 and batch > first else 1)
    local = min(math.ceil(share / passes), max(max(largest, batch) // (shape.gpus * passes), 1))
    return shape.gpus * local * passes, local, passes


def _times(row: StepRow, local: int) -> tuple[float, float, Origin]:
    """Seconds of a step and of its exchange at a local batch, and where they come from."""
    step_s, sync_s = (float(np.interp(local, row.local_batch, row.times_s[:, column])) for column in range(2))
    if not row.local_batch[0] <= local <= row.local_batch[-1]:
        return step_s, sync_s, Origin.EXTRAPOLATED
    return step_s, sync_s, Origin.MEASURED if local in row.local_batch else Origin.INTERPOLATED


def _in_scalability(table: StepTimes, nodes: int, gpus: int, local: int) -> bool:
    return bool(((table.servers == nodes) & (table.gpus == gpus) & (table.local_batch == local)).any())


def _memory_mib(card: GpuCard, local: int, most: int) -> int:
    """Memory of a worker: the largest measured local batch fills the card."""
    fixed = min(FIXED_MIB, card.memory_mib // 2)
    return fixed + math.ceil((card.memory_mib - fixed) * local / most)
