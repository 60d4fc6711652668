"""Sphinx's Python domain, without comparisons of a name with all others."""

from __future__ import annotations

from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment


class QuickPythonDomain(PythonDomain):
    """Holds the last parts of all names.

    Most names in signatures, such as ``int`` or ``Path``, are none of them.
    """

    def __init__(self, env: BuildEnvironment) -> None:
        super().__init__(env)
        self._last_parts: set[str] = set()
        self._count = 0

    def find_obj(
        self, env: BuildEnvironment, modname: str, classname: str, name: str, type: str | None, searchmode: int = 0
    ) -> list[tuple[str, ObjectEntry]]:
        """Finds the objects with full names that end with this one."""
        if len(self.objects) != self._count:  # pages were read since
            self._last_parts = {known.rpartition(".")[2] for known in self.objects}
            self._count = len(self.objects)
        if name.removesuffix("()").rpartition(".")[2] not in self._last_parts:
            return []
        return super().find_obj(env, modname, classname, name, type, searchmode)
