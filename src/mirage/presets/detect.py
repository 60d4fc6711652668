"""Framework, launcher and shape of a batch script, each with the line that shows it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from mirage.presets.preset import launchers, presets

_PYTHON_FILE = re.compile(r"[^\s'\"=]+\.py\b")
_TRAP = re.compile(r"^\s*trap\s+(?P<rest>.+)$")
_SIGNALS = {"USR1", "USR2", "TERM", "INT", "HUP"}
LARGEST_FILE = 1_000_000
"""Bytes of a Python file that are searched."""


@dataclass(frozen=True, slots=True)
class ScriptShape:
    """What a batch script does, as its text shows.

    Attributes:
        framework: Name of a preset; empty for none found.
        launcher: Name of a launcher; ``none`` where the script starts its programs itself.
        by_srun: Whether a line starts a program with srun.
        traps: Signals for which the script sets a trap of its own.
        forwards: Signals that its ``kill`` commands send.
        in_background: Whether it waits for a child in the background, as a trap needs.
        reasons: A line for each finding.
    """

    framework: str
    launcher: str
    by_srun: bool
    traps: tuple[str, ...]
    forwards: tuple[str, ...]
    in_background: bool
    reasons: tuple[str, ...]


def shape_of(script: bytes, directory: Path) -> ScriptShape:
    """The shape of a batch script.

    The Python files that it names are searched too, as far as they can be read.

    Args:
        directory: Relative names of files start here.
    """
    text = script.decode(errors="replace").replace("\\\n", " ")
    lines = [
        (k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")
    ]
    reasons: list[str] = []
    launcher = "none"
    for name, known in launchers().items():
        if found := _first(lines, known.command):
            launcher = name
            reasons.append(f"launcher {name}: line {found[0]} of the script, {found[1][:80]}")
            break
    framework = ""
    for name, preset in presets().items():
        if found := _first(lines, preset.command):
            framework = name
            reasons.append(f"framework {name}: line {found[0]} of the script, {found[1][:80]}")
            break
    if not framework:
        framework, reason = _by_code(lines, directory)
        reasons += [reason] if reason else []
    traps = tuple(dict.fromkeys(signal for _, line in lines for signal in _trapped(line)))
    if traps:
        reasons.append(f"the script has a trap of its own for {', '.join(traps)}")
    forwards = tuple(
        found[1] or "TERM"
        for _, line in lines
        for found in re.finditer(r"(?<![\w-])kill\s+(?:-s\s+|-)?(?:SIG)?([A-Z][A-Z0-9]+)?(?=[\s'\"])", line)
    )
    background = any(re.search(r"(?<![&>|])&\s*($|[^&>\s]|#)", line) for _, line in lines) and any(
        re.search(r"\bwait\b", line) for _, line in lines
    )
    by_srun = any(re.search(r"(^|[\s;&|])srun\s", line) for _, line in lines)
    return ScriptShape(framework, launcher, by_srun, traps, forwards, background, tuple(reasons))


def _first(lines: list[tuple[int, str]], patterns: tuple[str, ...]) -> tuple[int, str] | None:
    """The first line that matches a pattern, with its number."""
    for number, line in lines:
        for pattern in patterns:
            if re.search(pattern, line):
                return number, line.strip()
    return None


def _by_code(lines: list[tuple[int, str]], directory: Path) -> tuple[str, str]:
    """The framework that a Python file of the script imports, and the reason."""
    paths = [Path(word) for _, line in lines for word in _PYTHON_FILE.findall(line)]
    for path in dict.fromkeys(directory / path for path in paths):
        try:
            if path.stat().st_size > LARGEST_FILE:
                continue
            code = list(enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1))
        except OSError:
            continue
        for name, preset in presets().items():
            if found := _first(code, preset.code):
                return name, f"framework {name}: line {found[0]} of {path.name}, {found[1][:80]}"
    return "", ""


def _trapped(line: str) -> list[str]:
    """The signals of a trap that passes or handles them: not those that it ignores or resets."""
    found = _TRAP.match(line)
    if not found:
        return []
    try:
        words = shlex.split(found["rest"], comments=True)
    except ValueError:
        return []
    if len(words) < 2 or words[0] in ("", "-"):
        return []
    return [name for word in words[1:] if (name := word.removeprefix("SIG")) in _SIGNALS]
