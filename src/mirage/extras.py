"""Extras of the package: how to install what a command lacks."""

from __future__ import annotations

from pathlib import Path


def install(extra: str) -> str:
    """Returns the command that installs an extra: by the script of this copy, or by pip.

    Args:
        extra: Name of an extra in ``pyproject.toml``.
    """
    script = Path(__file__).parents[2] / "scripts" / "setup"
    return f"{script} {extra}" if script.exists() else f'pip install "mirage-hpc[{extra}]"'
