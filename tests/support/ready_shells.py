"""Shells for ready commands that start no process."""

from __future__ import annotations

from collections.abc import Mapping


class NoShell:
    """Fails where a ready command is run: the chains of the test have none."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        raise AssertionError("these chains have no ready commands")


class TrueShell:
    """Reports success of ``true`` and failure of every other command."""

    def succeeds(self, command: str, environment: Mapping[str, str], directory: str, timeout_s: float) -> bool:
        return command == "true"
