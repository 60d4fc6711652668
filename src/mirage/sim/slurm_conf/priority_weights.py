"""The weights of the multifactor priority, as ``sprio -w`` prints them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.sim.slurm_conf.command_output import read_command_output
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

_FIELDS = {
    "AGE": "weight_age",
    "FAIRSHARE": "weight_fairshare",
    "JOBSIZE": "weight_size",
    "PARTITION": "weight_partition",
    "QOS": "weight_qos",
}
_TRES = {"cpu": "weight_cpus", "gres/gpu": "weight_gpus"}
_WORD = re.compile(r"\S+")
_WIDE = 'sprio -w -o "%.9i %.10A %.10F %.10J %.10P %.10Q %.99T"'
"""The weights in wider columns: by default those of TRES have 20 characters, and the rest is cut off (22.05.8)."""


def with_priority_weights(settings: SlurmSettings, path: str | Path) -> SlurmSettings:
    """The settings with the weights of ``sprio -w``; a weight that it does not print is 0.

    Raises:
        ConfigurationError: The file cannot be read, has no line of weights, or may lack the end of some.
    """
    lines = read_command_output(path, "sprio -w").splitlines()
    heads = next((line for line in lines if line.split()[:1] == ["JOBID"]), None)
    weights = next((line for line in lines if line.split()[:1] == ["Weights"]), None)
    if heads is None or weights is None:
        raise ConfigurationError(f"{path} is not what `sprio -w` prints: no line that begins with JOBID and Weights")
    found = dict.fromkeys((*_FIELDS.values(), *_TRES.values()), 0.0)
    for column, text, width in _cells(heads, weights):
        if column == "TRES" and len(text) == width:
            raise ConfigurationError(
                f"{path}: the weights of TRES fill their column, so {shown(text)} may be cut; write `{_WIDE}` to it"
            )
        for name, value in _named(column, text):
            found[name] = _weight(path, column, value)
    return replace(settings, **found)  # type: ignore[arg-type]


def _cells(heads: str, weights: str) -> list[tuple[str, str, int]]:
    """Column, text and width of every weight; columns are right-aligned, and some are empty."""
    columns, start = [], 0
    for match in _WORD.finditer(heads):
        columns.append((match.end(), match[0], match.end() - start))
        start = match.end() + 1
    cells = []
    for match in list(_WORD.finditer(weights))[1:]:
        _, name, width = next((column for column in columns if column[0] >= match.end()), columns[-1])
        cells.append((name, match[0], width))
    return cells


def _named(column: str, text: str) -> list[tuple[str, str]]:
    """Field and value of every weight in a cell; ``CPU=100,GRES/gpu=1000`` holds several."""
    if column == "TRES":
        pairs = [word.partition("=") for word in text.split(",")]
        return [(_TRES[key.lower()], value) for key, _, value in pairs if key.lower() in _TRES]
    return [(_FIELDS[column], text)] if column in _FIELDS else []


def _weight(path: str | Path, column: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigurationError(f"{path}: the weight {shown(value)} of {column} is not a number") from None
