"""``mirage emulate nvml``: shell commands that show emulated devices to NVML."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from mirage.cli.options import CONTEXT, examples
from mirage.errors import ConfigurationError


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        'eval "$(mirage emulate nvml gpus --node node3)"',
        'eval "$(mirage emulate nvml gpus)" && python monitor.py',
    ),
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--node", default="local-1", show_default=True, metavar="NAME", help="The node.")
def nvml(directory: Path, node: str) -> None:
    """Print shell commands after which NVML has the emulated devices of a node in DIRECTORY.

    The library libnvidia-ml.so.1 is built with the C compiler of the system, once.
    """
    from mirage.emulate.device_ledger import DeviceLedger
    from mirage.emulate.nvml_library import nvml_folder

    file = (directory / f"{node}.gpus").resolve()
    if not file.exists():
        raise ConfigurationError(
            f"no emulated devices in {directory} for node {node}; run `mirage emulate train --devices {directory}` once"
        )
    DeviceLedger(file).close()
    path = os.pathsep.join([str(nvml_folder()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    click.echo(f"export LD_LIBRARY_PATH={shlex.quote(path)}")
    click.echo(f"export MIRAGE_NVML_FILE={shlex.quote(str(file))}")
