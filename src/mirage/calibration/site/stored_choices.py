"""Policies that evaluations chose for links on this cluster, next to its calibration."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mirage.atomic_file import write_atomically
from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.errors import ConfigurationError
from mirage.policy.policy_choice import PolicyChoice

_AGAIN = "make it again: mirage calibrate --site"


def read_choices(files: CalibrationFiles) -> tuple[PolicyChoice, ...]:
    """Returns the stored choices of a cluster; empty where there are none.

    Raises:
        ConfigurationError: The file cannot be read, or contains something else.
    """
    try:
        found = json.loads(files.choices.read_text(encoding="utf-8"))
        if found["cluster"] != files.cluster:
            raise ConfigurationError(f"{files.choices} is of the cluster {found['cluster']}; {_AGAIN}")
        return tuple(PolicyChoice.from_json(plain) for plain in found["choices"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigurationError(f"cannot read {files.choices}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{files.choices} contains no choices of policies ({error}); {_AGAIN}") from error


def store_choices(files: CalibrationFiles, choices: Iterable[PolicyChoice]) -> Path:
    """Stores choices in place of those for the same links, and returns the file.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    new = list(choices)
    for_new = {_link(one) for one in new}
    try:
        stored = read_choices(files)
    except ConfigurationError:
        stored = ()  # it is replaced
    every = [*(one for one in stored if _link(one) not in for_new), *new]
    content = {"cluster": files.cluster, "choices": [one.to_json() for one in every]}
    try:
        write_atomically(files.choices, json.dumps(content, indent=2).encode(), 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {files.choices}: {error.strerror}") from error
    return files.choices


def _link(choice: PolicyChoice) -> tuple[object, ...]:
    return choice.nodes, choice.limit_s, choice.cost_ratio, choice.bank_age
