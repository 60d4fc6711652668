"""The folder of a controller: plan, journal and lock."""

from __future__ import annotations

import os
from pathlib import Path

import click

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the plan, the journal and the lock of the controller.  [default: control in the agent's folder]",
)


def control_folder(state: Path | None) -> Path:
    """The folder that was given, or the default one."""
    if state is not None:
        return state
    from mirage.agent.paths import folder_of

    return folder_of(os.environ) / "control"
