"""Framework, launcher and shape of a batch script, each with the line that shows it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mirage.presets.preset import launchers, presets

_PYTHON_FILE = re.compile(r"[^\s'\"=]+\.py\b")
_KILL = re.compile(r"(?<![\w-])(?P<what>kill|pkill|killall|scancel)\s(?P<words>[^;&|\n)}`]*)")
_SENT = re.compile(r"(?:^|\s)(?:-s\s*|--signal[=\s]|-n\s+|-(?=SIG|[A-Z]{3}|\d))(?:SIG)?(?P<signal>\w+)")
_OWN_PATH = r"\$\{?(?:0|BASH_SOURCE)\b"
_REQUEUES = r"scontrol\s+requeue\s+\S*SLURM_JOB_?ID\b"
_LEADING = {"{", "}", "!", "if", "then", "elif", "else", "while", "until", "do", "time"}
_PRINTS = ("echo", "printf")
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
    commands, lines = _lines_of(script)
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
        framework, reason = _by_code(commands, directory)
        reasons += [reason] if reason else []
    traps = tuple(dict.fromkeys(name for command in commands for name in _trapped(command.words)))
    if traps:
        reasons.append(f"the script has a trap of its own for {', '.join(traps)}")
    forwards = tuple(name for _, line in lines for name in _sent(line))
    background = any(command.in_background for command in commands) and any(
        re.search(r"\bwait\b", line) for _, line in lines
    )
    by_srun = any(re.search(r"(^|[\s;&|])srun\s", line) for _, line in lines)
    return ScriptShape(framework, launcher, by_srun, traps, forwards, background, tuple(reasons))


def own_next_job(script: bytes, name: str) -> tuple[str, ...]:
    """A remark on the line of a batch script that starts the next job; empty without one.

    Args:
        name: Name of the script.
    """
    submits = rf"(?<![\w-])sbatch\s(?:[^;&|\n]*[\s/(])?(?:{_OWN_PATH}|{re.escape(name)})(?=[\s)}}\[#%]|$)"
    found = _first(_lines_of(script)[1], (submits, _REQUEUES))
    if found is None:
        return ()
    return (
        f"line {found[0]} of the script, {found[1][:80]}, starts the next job, and so does Mirage: the jobs would "
        "double with each link; remove it from the script",
    )


def _lines_of(script: bytes) -> tuple[list[ShellCommand], list[tuple[int, str]]]:
    """The commands of a script that do more than print, and each as a line with its number."""
    commands = [c for c in shell_commands(script.decode(errors="replace")) if c.words[0] not in _PRINTS]
    return commands, [(c.number, " ".join(" ".join(c.words).split())) for c in commands]


def _first(lines: list[tuple[int, str]], patterns: tuple[str, ...]) -> tuple[int, str] | None:
    """The first line that matches a pattern, with its number."""
    for number, line in lines:
        for pattern in patterns:
            if re.search(pattern, line):
                return number, line.strip()
    return None


def _by_code(commands: list[ShellCommand], directory: Path) -> tuple[str, str]:
    """The framework that a Python file of the script imports, and the reason."""
    paths = (path for command in commands for path in _python_files(command.words))
    known = {"SLURM_SUBMIT_DIR": str(directory), "PWD": str(directory), "HOME": os.path.expanduser("~")}
    for command in commands:
        known |= dict(word.split("=", 1) for word in command.words if re.match(r"[A-Za-z_]\w*=", word))
    for path in dict.fromkeys(directory / _expanded(path, known) for path in paths):
        try:
            if path.stat().st_size > LARGEST_FILE:
                continue
            code = list(enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1))
        except (OSError, ValueError):
            continue
        for name, preset in presets().items():
            if found := _first(code, preset.code):
                return name, f"framework {name}: line {found[0]} of {path.name}, {found[1][:80]}"
    return "", ""


def _python_files(words: tuple[str, ...]) -> Iterator[str]:
    """The Python files that a command names: as words, within them, or as a module."""
    for before, word in zip(("", *words), words, strict=False):
        if word.endswith(".py"):
            yield word
        yield from _PYTHON_FILE.findall(word)
        if before == "-m":
            yield word.replace(".", "/") + ".py"


def _expanded(text: str, known: dict[str, str]) -> str:
    """A word with the values of variables that the script itself shows."""
    for _ in range(3):  # a value may name another variable
        text = re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: known.get(found[1] or found[2], found[0]), text)
    return known["HOME"] + text[1:] if text.startswith("~/") else text


def _trapped(words: tuple[str, ...]) -> list[str]:
    """The signals of a trap that passes or handles them: not those that it ignores or resets."""
    arguments = [word for word in words[1:] if word != "--"]
    if words[0] != "trap" or len(arguments) < 2 or arguments[0] in ("", "-"):
        return []
    return [name for word in arguments[1:] if (name := _signal_name(word)) in _SIGNALS]


def _sent(line: str) -> Iterator[str]:
    """The signals that the ``kill`` commands of a line send, by default TERM."""
    for found in _KILL.finditer(line):
        sent = _SENT.search(found["words"])
        if found["what"] == "scancel" and sent is None:
            continue  # it ends the job
        name = _signal_name(sent["signal"]) if sent else "TERM"
        if name and not found["words"].startswith("-l"):
            yield name


def _signal_name(word: str) -> str:
    """The name of a signal without SIG, from a name or a number; empty for no signal."""
    if not word.isdecimal():
        return word.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(word)).name.removeprefix("SIG")
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A simple command of a shell script.

    Attributes:
        number: Number of the line on which it begins, from 1.
        words: Its words without quotes, at least one; expansions are as they are written.
        in_background: Whether ``&`` ends it, or the list or pipe that it ends.
    """

    number: int
    words: tuple[str, ...]
    in_background: bool


_PIECE = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n)+)
    | (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<quoted>'[^']*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\\.)
    | (?P<expansion>\$\{[^}]*\}|\$\((?:[^()]|\([^()]*\))*\))
    | (?P<here><<-?[ \t]*(?P<ends>'[^'\n]+'|"[^"\n]+"|[^\s;&|()<>]+))
    | (?P<redirection><<<|[<>]&|&>>?|>\||<>|>>)
    | (?P<end>&&|\|\||;;|\|&|[;&|()\n])
    | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


def shell_commands(text: str) -> Iterator[ShellCommand]:
    """The simple commands of a shell script, in order: not its comments and here-documents.

    It is no parser: reserved words before a command are taken off, and what is within quotes stays a word.
    """
    place, number, begun = 0, 1, 1
    word: str | None = None
    words: list[str] = []
    here: list[str] = []  # the words that end the here-documents of this line
    while place <= len(text):
        found = _PIECE.match(text, place)
        kind, piece = (found.lastgroup, found[0]) if found else ("end", "\n")
        if found and found["here"] is not None:
            kind = "here"
        if kind in ("quoted", "expansion", "redirection", "plain"):
            if word is None and not words:
                begun = number
            inner = piece[1:-1] if piece[0] in "'\"" and len(piece) > 1 else piece.removeprefix("\\")
            word = (word or "") + (inner if kind == "quoted" else piece)
        elif word is not None:
            words.append(word)
            word = None
        if kind == "here" and found:
            here.append(found["ends"].strip("'\"").removeprefix("\\"))
        if kind == "end":
            while words and words[0] in _LEADING:
                words.pop(0)
            if words:
                yield ShellCommand(begun, tuple(words), piece == "&")
            words = []
        number += piece.count("\n")
        place += max(len(piece), 1)
        if piece == "\n":
            for ends in here:
                closing = re.compile(rf"^\t*{re.escape(ends)}$", re.MULTILINE).search(text, place)
                after = closing.end() if closing else len(text)
                number += text.count("\n", place, after)
                place = after
            here = []
