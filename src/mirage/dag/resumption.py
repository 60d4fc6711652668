"""Resumption of long work: what is finished is kept beside the plan of the work, and no other plan goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError, shown
from mirage.whole_file import write_whole


def check_plan(path: Path, held: object, plan: Mapping[str, Any]) -> None:
    """Compare a plan with the one that a file was left by.

    Args:
        path: The file, for the message.
        held: The plan in it.
        plan: The plan of the work that wants to go on; JSON values.

    Raises:
        ConfigurationError: They differ; the message says in what.
    """
    before = held if isinstance(held, dict) else {}
    now = json.loads(json.dumps(plan))
    told = [
        f"{name} was {_value(before, name)} and is {_value(now, name)}"
        for name in {**now, **before}
        if name not in before or name not in now or before[name] != now[name]
    ]
    if told:
        raise ConfigurationError(
            f"{path} is of work with another plan: {'; '.join(told)}; repeat the command of then, remove the file, or "
            "name another one"
        )


def _value(plan: Mapping[str, Any], name: str) -> str:
    return shown(plan[name]) if name in plan else "not told"


class Kept:
    """What is finished of some work, in a file of JSON that is removed when all of it is.

    Args:
        path: The file; it is read where it exists. None to keep nothing.
        plan: All that decides how the work ends; JSON values.

    Attributes:
        finished: By name, as it was kept last.

    Raises:
        ConfigurationError: The file cannot be read, or is of work with another plan.
    """

    def __init__(self, path: Path | None, plan: Mapping[str, Any]) -> None:
        self.path, self.plan = path, plan
        self.finished: dict[str, Any] = {}
        if path is None or not path.exists():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}; remove it") from error
        if not isinstance(held, dict) or not isinstance(held.get("finished"), dict):
            raise ConfigurationError(f"{path} holds no finished work; remove it")
        check_plan(path, held.get("plan"), plan)
        self.finished = held["finished"]

    def keep(self, **finished: Any) -> None:
        """Add to what is finished; it is on the disk when this returns.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        self.finished |= finished
        if self.path is None:
            return
        whole = json.dumps({"plan": self.plan, "finished": self.finished})
        try:
            write_whole(self.path, whole.encode())
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.path}: {error.strerror}") from error

    def remove(self) -> None:
        """Remove the file, as all is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
