"""The pages of the reference: one for the commands, and one for each room."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

INTERNAL = {("sim", "kernel"), ("lab", "commands"), ("agent", "policy_runner")}
"""Folders that hold nothing for others to call."""

COMMANDS = """Commands
========

.. click:: mirage.cli:root
   :prog: mirage
   :nested: full
"""


def write_pages(package: Path, folder: Path) -> None:
    """Write ``commands.rst``, a page for each room, and ``ground.rst`` for the root modules."""
    folder.mkdir(exist_ok=True)
    rooms = sorted(path for path in package.iterdir() if (path / "__init__.py").exists() and path.name != "cli")
    pages = {"commands": COMMANDS, "ground": _page("Ground floor", _modules(package, package.glob("*.py")))}
    for room in rooms:
        pages[room.name] = _page(f"mirage.{room.name}", _modules(package, room.rglob("*.py")))
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, encoding="utf-8")


def _modules(package: Path, files: Iterable[Path]) -> list[tuple[str, bool]]:
    """Dotted names of modules with anything to document, and whether each is a package."""
    found = []
    for path in sorted(files):
        if path.name == "__main__.py" or "migrations" in path.parts or path.relative_to(package).parts[:2] in INTERNAL:
            continue
        parts = ("mirage", *path.relative_to(package).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found.append((".".join(parts[:-1] if is_package else parts), is_package))
    return found


def _page(title: str, modules: list[tuple[str, bool]]) -> str:
    lines = [title, "=" * len(title), ""]
    for name, is_package in modules:
        if name.count(".") > 1 or not is_package:
            lines += [name, "-" * len(name), ""]
        lines += [f".. automodule:: {name}", *(["   :no-members:"] if is_package else []), ""]
    return "\n".join(lines)
