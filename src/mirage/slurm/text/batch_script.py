"""Batch scripts as sbatch reads them: options of ``#SBATCH`` lines to the first command.

A line counts where it begins with ``#SBATCH`` in the first column. Words end at white space; quotes of either kind and
backslashes (inside quotes too) protect it; ``#`` begins a comment wherever it is not quoted. An empty word ends the
line (``""``, or a backslash at its end, which does not continue the line): sbatch ignores the rest without a warning
(22.05.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mirage.errors import ConfigurationError, shown
from mirage.slurm.sbatch_options import Chosen, one_option, parse_sbatch, refuse_unit, to_argv

MAGIC = ("#SBATCH", "#SLURM")
"""Prefixes of a line of options; versions up to at least 22.05 accept the second, with a warning."""

HET_JOB = ("hetjob", "packjob")
"""Words that separate the components of a heterogeneous job."""

_MISSPELT = re.compile(r"(?!#SBATCH)\s*(#\s*SBATCH|(?i:#sbatch))\s+-")
"""Not ``# sbatch -N 2 job.sh``, which is a remark on how to submit the script."""

_SPACE = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Directive:
    """A line of options in a script.

    Attributes:
        number: Line number, from 1.
        text: The whole line.
        words: Words after ``#SBATCH``.
        unread: The rest of the line, from its first empty word on.
        continued: Whether a backslash ends it, apart from a comment.
    """

    number: int
    text: str
    words: tuple[str, ...]
    unread: str = ""
    continued: bool = False


def directives(script: bytes) -> Chosen:
    """The options in the ``#SBATCH`` lines of a script, up to its first command.

    Raises:
        ConfigurationError: A line that sbatch would refuse, quoted; or a heterogeneous job.
    """
    chosen: Chosen = {}
    for line in _read(script):
        if line.words[:1] and line.words[0] in HET_JOB:
            raise _wrong(line, "a chain is made of jobs of one component; a heterogeneous job cannot be one")
        try:
            options, rest, _ = parse_sbatch(line.words)
            for name in ("time", "time-min"):
                refuse_unit(f"--{name}", options.get(name))
        except ConfigurationError as error:
            raise _wrong(line, str(error)) from error
        if rest is not None:
            raise _wrong(line, f"Invalid directive found in batch script: {rest}")
        chosen |= options
    return chosen


def ignored(script: bytes) -> tuple[str, ...]:
    """Warnings about what sbatch silently ignores in the ``#SBATCH`` lines of a script."""
    found = []
    for line in _read(script):
        if line.continued:
            why = "a backslash does not continue a #SBATCH line; the next line counts only if it begins with #SBATCH"
        elif line.unread:
            why = f"sbatch stops reading at an empty word, and ignores {shown(line.unread)}"
        else:
            continue
        found.append(f"{_place(line)}: {why}")
    return (*found, *_not_read(script))


def _not_read(script: bytes) -> Iterator[str]:
    """Warnings about ``#SBATCH`` lines in another spelling, or after the first command.

    Lines of a here-document may belong to another script.
    """
    begun = False
    for number, line in enumerate(script.split(b"\n"), 1):
        text = os.fsdecode(line)
        if begun and re.match(r"#SBATCH\s+-", text):
            yield f"{_place(Directive(number, text, ()))}: sbatch ignores it after the first command; move it up"
        if not begun and _MISSPELT.match(text):
            why = "sbatch reads a line only if it begins with #SBATCH; write it so, or with ##SBATCH if it is a comment"
            yield f"{_place(Directive(number, text, ()))}: {why}"
        if (plain := text.strip(_SPACE)) and not plain.startswith("#"):
            begun = True
            if "<<" in plain:
                return


def without(script: bytes, names: Collection[str]) -> bytes:
    """The script without these options in its ``#SBATCH`` lines; other lines stay unchanged.

    A line with no option left becomes a comment, so line numbers do not change.
    """
    lines = script.split(b"\n")
    for line in _read(script):
        declared, words = [], list(line.words)
        while words:
            options, words = one_option(words)
            declared.append(options)
        left = [{name: value for name, value in options.items() if name not in names} for options in declared]
        if left != declared:
            remaining = " ".join(_quoted(word) for options in left for word in to_argv(options))
            lines[line.number - 1] = os.fsencode(f"{MAGIC[0]} {remaining}" if remaining else f"#{line.text}")
    return b"\n".join(lines)


def _read(script: bytes) -> Iterator[Directive]:
    for number, line in enumerate(script.split(b"\n"), 1):
        text = os.fsdecode(line)
        magic = next((begin for begin in MAGIC if text.startswith(begin)), "")
        if magic:
            try:
                yield _directive(number, text, text.removeprefix(magic))
            except ConfigurationError as error:
                raise _wrong(Directive(number, text, ()), str(error)) from error
        elif (plain := text.strip(_SPACE)) and not plain.startswith("#"):
            return


def _directive(number: int, line: str, text: str) -> Directive:
    """The line, given its text after ``#SBATCH``.

    Raises:
        ConfigurationError: An unmatched quote, or a colon on its own.
    """
    words: list[str] = []
    place = 0
    while True:
        while place < len(text) and text[place] in _SPACE:
            place += 1
        if place == len(text) or text[place] == "#":
            return Directive(number, line, tuple(words), continued=_is_continued(text[:place]))
        if text[place] == ":":
            raise ConfigurationError("Unexpected `:`")
        word, end = _word(text, place)
        if not word:
            unread = text[place:].rstrip(_SPACE)
            return Directive(number, line, tuple(words), unread, continued=unread == "\\")
        words.append(word)
        place = end


def _is_continued(text: str) -> bool:
    """Whether a text ends in a backslash that no backslash before it escapes."""
    plain = text.rstrip(_SPACE)
    return (len(plain) - len(plain.rstrip("\\"))) % 2 == 1


def _word(text: str, place: int) -> tuple[str, int]:
    """The word that begins at a position, and where it ends."""
    word: list[str] = []
    quote, escaped = "", False
    while place < len(text) and (quote or text[place] not in _SPACE):
        letter = text[place]
        if escaped:
            word.append(letter)
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and letter == "#":
            return "".join(word), place
        else:
            word.append(letter)
        place += 1
    if quote:
        raise ConfigurationError(f"Unmatched `{quote}`")
    return "".join(word), place


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w=+@%/.,:-]+", word) else '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def _wrong(line: Directive, why: str) -> ConfigurationError:
    return ConfigurationError(f"{_place(line)}: {why}")


def _place(line: Directive) -> str:
    return f"line {line.number} of the script, {shown(line.text)}"
