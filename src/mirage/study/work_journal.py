"""Resumption of long work: a journal of finished parts, which only the same plan resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, reason, shown


def check_plan(path: Path, held: object, plan: Mapping[str, Any]) -> None:
    """Compares a plan with the one in a file.

    Args:
        path: The file, for the message.
        held: The plan in it.
        plan: The plan of the work to resume; JSON values.

    Raises:
        ConfigurationError: They differ; the message lists the differences.
    """
    before = held if isinstance(held, dict) else {}
    now = json.loads(json.dumps(plan))
    differences = [
        f"{name} was {_value(before, name)} and is {_value(now, name)}"
        for name in {**now, **before}
        if name not in before or name not in now or before[name] != now[name]
    ]
    if differences:
        raise ConfigurationError(
            f"{path} belongs to another plan: {'; '.join(differences)}; repeat the earlier command, remove the file, "
            "or name another one"
        )


def _value(plan: Mapping[str, Any], name: str) -> str:
    return shown(plan[name]) if name in plan else "not set"


class WorkJournal:
    """A journal of finished work, in a JSON file that is removed when all is finished.

    Args:
        path: The file; it is read where it exists. None to store nothing.
        plan: All that determines the result of the work; JSON values.

    Attributes:
        finished: By name, as it was stored last.

    Raises:
        ConfigurationError: The file cannot be read, or belongs to another plan.
    """

    def __init__(self, path: Path | None, plan: Mapping[str, Any]) -> None:
        self.path, self.plan = path, plan
        self.finished: dict[str, Any] = {}
        if path is None or not path.exists():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path} cannot be read: {reason(error)}; remove it") from error
        if not isinstance(held, dict) or not isinstance(held.get("finished"), dict):
            raise ConfigurationError(f"{path} contains no finished work; remove it")
        check_plan(path, held.get("plan"), plan)
        self.finished = held["finished"]

    def store(self, **finished: Any) -> None:
        """Adds to the finished work; it is on disk when this returns.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        self.finished |= finished
        if self.path is None:
            return
        whole = json.dumps({"plan": self.plan, "finished": self.finished})
        try:
            write_atomically(self.path, whole.encode())
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.path}: {error.strerror}") from error

    def remove(self) -> None:
        """Removes the file once all work is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
