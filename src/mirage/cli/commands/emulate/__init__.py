"""``mirage emulate``: jobs that behave as GPU jobs on machines without a GPU."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

emulate = LazyGroup(
    name="emulate",
    lazy={
        "train": LazyCommand("mirage.cli.commands.emulate.emulate_train:train", "Run an emulated training."),
        "nvml": LazyCommand("mirage.cli.commands.emulate.emulate_nvml:nvml", "Show emulated devices to NVML programs."),
        "infer": LazyCommand("mirage.cli.commands.emulate.emulate_infer:infer", "Run an emulated vLLM server."),
        "devices": LazyCommand(
            "mirage.cli.commands.emulate.emulate_devices:devices", "List emulated devices, or inject faults."
        ),
    },
    context_settings=CONTEXT,
    help="Run jobs that behave as GPU jobs, on machines without a GPU.",
    epilog=examples(
        "mirage emulate train --profiles profiles --model bert --gpu-type a100 --gpus 8 --steps 200",
        "mirage emulate infer --model llama --port 8000 --shutdown-timeout 30",
    ),
)
